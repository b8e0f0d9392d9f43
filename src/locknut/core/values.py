"""What travels between the core and an engine: claims, answers, and what users are shown."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from locknut.core.plain_text import plain

DEFAULT_NAMESPACE = "locknut"
FENCE_STEP = 32
"""A fence is `raw * FENCE_STEP + hand-over number`; clock engines count raw in steps of 32 us."""


class _OwnNames(enum.EnumType):
    """An enumeration of words that lists only what is its own in `dir()` and `help()`: the two
    would show five hundred lines about the methods of `str` otherwise.
    """

    def __dir__(cls) -> list[str]:
        return sorted({"__class__", "__doc__", "__members__", *cls.__members__})


class Mode(enum.Enum):
    """How a claim shares its key with others."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    PERMIT = "permit"


class Capability(enum.StrEnum, metaclass=_OwnNames):
    """What an engine can promise. The list is closed: asking for another name is an error."""

    FENCING = "fencing"
    FAIR = "fair"
    SHARED = "shared"
    PERMITS = "permits"
    OWNERS = "owners"
    DOWNGRADE = "downgrade"
    DETACHING = "detaching"
    WAITERS = "waiters"
    WAKE_UP = "wake_up"
    LEASE = "lease"
    SESSION = "session"
    DURABLE = "durable"
    REPLICATED = "replicated"
    NO_EVICTION = "no_eviction"
    HISTORY = "history"


class Claim(NamedTuple):
    """One attempt to hold a key.

    `id` is 128 random bits, new for every attempt and never used again: whoever knows it can
    release, so it is never logged or listed. An explicit `owner` stands beside it, never instead of
    it.
    """

    key: str
    id: str
    ttl: float | None = None
    """Seconds the engine promises without renewal; None: until release or the holder's death."""
    mode: Mode = Mode.EXCLUSIVE
    permits: int = 1
    """The limit this claim is judged by, in PERMIT mode: granted while fewer are held."""
    fair: bool = False
    """Strictly first come, first served, across processes."""
    owner: str | None = None
    """Claims of one owner hold an exclusive key together, each with its own expiry."""
    who: str = ""
    """The thread or task: its identity, then its name for people. See `callers`."""
    label: str = ""
    """What the user calls this holder: shown, never decided on."""
    waits: bool = True
    """False for a non-blocking attempt: the engine need not queue it (see `Busy.queued`)."""
    writer: bool = False
    """An exclusive claim of a read-write lock: other clients of an engine may know it by a name of
    its own. It excludes whatever a plain one excludes."""


class Granted(NamedTuple):
    """The claim holds its key."""

    raw: int
    """Greater for every later grant of the same key; the same for a repeated attempt."""
    ttl: float | None = None
    """What the engine granted, where that differs from what was asked."""
    anchor: float | None = None
    """The moment on our clock from which validity counts; None: when this command was sent.
    A pushed grant counts from the last command that was answered "not yet" (S1)."""
    until: float | None = None
    """The engine vouches no longer than this, on our clock, whatever the ttl: a session's end."""


class Busy(NamedTuple):
    """The claim does not hold its key yet."""

    retry_in: float
    """Ask again after this long even if nobody wakes us."""
    queued: bool = True
    """False if the engine knows nothing of the claim any more: then it needs no release."""


Answer = Granted | Busy


class KeyPolicy(NamedTuple):
    """What an engine wants done differently because other people's clients share its keys."""

    namespace: str = DEFAULT_NAMESPACE
    """Stands before every name where the user says nothing; empty: a name is the key itself."""
    hand_over: bool = True
    """Whether a process may pass a hold around among its own: others see no free lock meanwhile."""
    fence_step: int = FENCE_STEP
    """1 where the others count with the same number, so that it has to stay as it is."""


class Renewal(enum.Enum):
    """What a renewal of one claim came to."""

    HELD = "held"
    LOST = "lost"
    UNKNOWN = "unknown"
    """No answer: the old validity stands, and is never extended."""


class HeldUntil(NamedTuple):
    """HELD, where the engine vouches for less than the full ttl: a session's end, on our clock."""

    until: float


class Broken(NamedTuple):
    """LOST, where the engine knows who broke the hold by force, and why."""

    note: str


Renewed = Renewal | HeldUntil | Broken
Notice = Renewal | Broken
"""What an engine may say of a hold without being asked."""


class HoldCheck(NamedTuple):
    """How a transaction of the program's own makes sure of a hold that is kept in its database."""

    look: str
    """Asks for the hold as the transaction sees it; `:name` and `:hexed` stand for the name."""
    keep: str
    """Asks for the hold as it is now, and keeps it so until the transaction is over."""
    name: bytes
    holds: Callable[[Sequence[Sequence[Any]]], bool]
    """Whether the rows of an answer say that it is held."""


class State(enum.StrEnum, metaclass=_OwnNames):
    """What a lease is, by its holder's own clock."""

    HELD = "held"
    AT_RISK = "at_risk"
    LOST = "lost"
    RELEASED = "released"
    DETACHED = "detached"


class Holder(NamedTuple):
    """A holder of a key or a waiter for it, as far as the engine knows."""

    host: str = ""
    pid: int | None = None
    who: str = ""
    label: str = ""
    mode: Mode = Mode.EXCLUSIVE
    raw: int | None = None
    since: float | None = None
    """Seconds since the epoch, by the engine's clock."""
    ttl_left: float | None = None
    owner: str | None = None
    fence_step: int = FENCE_STEP
    """How a raw number of this engine becomes a fence."""
    party: str = ""
    """The identity of the thread or task, which no other one ever has; empty if it is not known."""
    breaks: bool = False
    """Whether it may get DeadlockDetected if it waits in a deadlock: `connect(deadlocks=...)`."""

    @property
    def fence(self) -> int | None:
        """The fence of the remote grant; hand-overs inside a process are not visible here."""
        return None if self.raw is None else self.raw * self.fence_step

    def __repr__(self) -> str:
        """The fields, with the fence in place of the two numbers that it is made of."""
        shown = {"fence": self.fence} | self._asdict()
        del shown["raw"], shown["fence_step"]
        return f"Holder({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __str__(self) -> str:
        name = self.label or self.owner or self.who
        place = f"{self.host}:{self.pid}" if self.pid is not None else self.host
        return plain(f"{name} at {place}" if name and place else name or place) or "somebody"


class Detail(NamedTuple):
    """What one server says of a name, where an engine asks several."""

    place: str
    """Which server it is."""
    holders: tuple[Holder, ...] = ()
    agrees: bool = True
    """Whether it knows the holders that the engine names, and no others."""
    problem: str = ""
    """Why it says nothing, in words; empty if it does."""


class LockInfo(NamedTuple):
    """One name as the engine sees it: who holds it, and who waits, in order."""

    name: str
    holders: tuple[Holder, ...] = ()
    waiters: tuple[Holder, ...] = ()
    permits: int | None = None
    """The limit last used with a semaphore of this name; None for a lock."""
    details: tuple[Detail, ...] = ()
    """What an engine may add: each server's own answer, where it asks several."""

    @property
    def locked(self) -> bool:
        return bool(self.holders)


class History(NamedTuple):
    """What an engine keeps of a stream of texts."""

    now: float
    """Seconds since the epoch, by the engine's clock, when it was read."""
    texts: Sequence[tuple[float, str]] = ()
    """Each with the time when it was written, by the same clock; oldest first."""


class Ping(NamedTuple):
    """The engine works: a lock was taken and given back."""

    backend: str
    """The engine's name."""
    place: str
    """Where the locks live, as far as it can be shown."""
    seconds: float
    """How long that took."""


class RenewalReport(NamedTuple):
    """What one renewal of one hold came to, for metrics. There are too many of them for events."""

    name: str
    backend: str
    mode: Mode
    outcome: str
    """confirmed, unanswered, late (answered when the hold was over) or lost."""
    left: float | None = None
    """With `confirmed`: the seconds that the hold was still sure to last when the answer came. It
    is the early warning: a loss is a renewal that came after the last of them."""
    ttl: float | None = None
    """What is left is to be compared with this."""


class Severity(enum.StrEnum, metaclass=_OwnNames):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    """Locks work, but something that may happen makes them slow, or lets two hold one."""
    FAIL = "fail"
    """Locks do not work, or are not safe as it stands."""
    UNKNOWN = "unknown"
    """It could not be found out; `found` says why."""


class Finding(NamedTuple):
    """What one check came to."""

    code: str
    """Names the check, and never changes."""
    severity: Severity
    found: str
    """One sentence: what was found."""
    advice: str = ""
    """One sentence: what to do; empty if there is nothing to do."""
    page: str = ""
    """Where the check is explained."""


class Event(NamedTuple):
    """Something that happened to a lock, for logs, metrics and pages."""

    kind: str
    """waiting, granted, handed_over, released, timed_out, failed, at_risk, lost, skipped, broken,
    abandoned or detached."""
    name: str
    backend: str
    mode: Mode = Mode.EXCLUSIVE
    fence: int | None = None
    waited: float | None = None
    """Seconds from the call to the grant, or to giving up."""
    held: float | None = None
    """Seconds from the grant to the end of the hold."""
    reason: str = ""
    holder: str = ""
    """The thread or task of this process that has or had it; with `timed_out`, where one of this
    process has it."""
    contended: bool | None = None
    """With granted, handed_over, timed_out and failed: whether the caller had to wait. Then its
    `waiting` came before; and after every `waiting` comes one of these."""
