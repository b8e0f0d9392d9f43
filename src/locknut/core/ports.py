"""The only ways from the core to the outside: a runtime, an engine's backend, and an event sink.

Rules every backend keeps (the conformance suite tests them; tags lead to docs/hazards.md):

1. A command finishes. It is never cancelled half-way and has a time limit of its own, kept in the
   connection (an asyncio backend does not use `asyncio.timeout` for it, nor `wait_for`: those
   cancel their task, and a command does not see that of its caller's). Only waits can be cancelled.
   A caller whose time is over returns all the same, and what the command may have done is undone
   behind it. On a loop the core sees to that: the command is finished by another task, so it must
   not depend on the task that it began in. A thread cannot leave a command: whatever blocks in a
   blocking backend (connecting, sending, receiving, waiting for a connection) waits for no longer
   than `runtimes.deadlines.time_left(its own limit)`, and a command for which there is no time left
   raises `BackendUnavailable` without being sent. `release` first forgets what this backend
   remembers of the claim, because it may be all that is still done here.
2. `attempt` twice with the same claim is one claim: a lost reply is asked again and finds its own
   grant, sets the full ttl again in the same step, and returns the same raw number. A backend that
   cannot set the ttl again returns an `anchor` at the first sending instead (S8).
3. `release` is always safe: after a grant, after a failure, twice, for a claim that never arrived.
   With `outcome_unknown` (some sending of the claim was never answered) it also leaves a tombstone
   for the claim id that a late `attempt` obeys (L3).
4. A watch may miss or ring for nothing; `Busy.retry_in` is the net. Watch first, then ask again.
5. Deadlines inside (`until`, on the runtime's clock), timeouts only at the API.
6. A backend never sleeps, retries or starts threads by itself; its connection may own a listener.
   The driver's own retries are off.
7. `renew` never creates or revives: it needs the claim id to match and the hold not to have
   expired.
8. Failures are `BackendError` (the engine said no) or `BackendUnavailable` (no answer, outcome
   unknown), translated once, at the connection, with `from`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from locknut.core.runtime_port import NEVER, Guard, Runtime, Sender, Signal
from locknut.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Event,
    Granted,
    History,
    HoldCheck,
    KeyPolicy,
    LockInfo,
    Notice,
    RenewalReport,
    Renewed,
)

if TYPE_CHECKING:
    from locknut.core.findings import Check

__all__ = [
    "NEVER", "Backend", "Engine", "EventSink", "Guard", "Runtime", "Sender", "Signal",
]  # fmt: skip


class EventSink(Protocol):
    """Where events go."""

    measured: bool
    """Whether somebody measures these locks: then each renewal is reported as well."""

    def wants(self, kind: str, waited: float = 0.0) -> bool:
        """Whether anybody listens to this kind: asked first, because building one costs."""

    def emit(self, event: Event) -> None: ...

    def renewal(self, report: RenewalReport) -> None:
        """Take in what a renewal came to, on the keeper's thread: it must not hold it up."""


class Backend(Protocol):
    """One connection's worth of an engine, in one colour.

    `core/base.py` has a default for whatever an engine may leave out.
    """

    name: str
    """The scheme, for errors and events."""
    capabilities: frozenset[Capability]
    default_ttl: float | None
    """The ttl of a claim that asks for none; None: until release or the holder's death."""
    min_ttl: float
    max_ttl: float
    max_detached_ttl: float | None
    """How long a detached hold may live; None: `max_ttl`."""
    heartbeat: float | None
    """How often every hold is looked at by a renewal, whatever its ttl, because it can be taken
    away unseen; None: never."""
    waits_on_first_attempt: bool
    """Whether the first attempt of a claim is given patience as well."""
    batches: bool
    """Whether `attempt_all` and `release_all` are one round trip; else they are not used."""
    passes_notes: bool
    """Whether the holder learns the note of `break_hold`."""
    notices_hang_up: bool
    """Whether `hung_up` can be true."""

    @property
    def settles_at(self) -> float:
        """From when on to `settle`; NEVER if nothing is owed. It is the same for all backends of an
        engine, whichever of them gave rise to it.
        """

    no_tombstones: str
    """Why this engine needs none (port rule 3); empty: it leaves them."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        """Ask for the key; may wait in the engine for up to `patience` seconds. The first attempt
        of a claim has none, except on a backend that says so (`waits_on_first_attempt`).

        A claim that is refused may be put in the engine's line, unless it is a non-blocking attempt
        (`claim.waits` is False); if it is sure to have left nothing, say `Busy(queued=False)`.
        """

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        """Ask for all the keys, all or nothing, in one step; nobody is put in a line.

        Busy: they are not all free, or somebody waits for one. None: these keys cannot be taken in
        one step. Either way nothing was taken. Rule 2 holds: the same claims asked again find their
        own grants; and so does rule 3: one with a tombstone keeps all the others out.
        """

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Renewed]:
        """Set the full ttl of each hold again, in one round trip."""

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        """Give the key back, or leave the line; False if the claim held nothing."""

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        """`release` of each, in one round trip; an error of one does not keep the others."""

    async def downgrade(self, claim: Claim) -> bool:
        """Turn an exclusive hold into a shared one and let waiting readers in; False if not held.

        From now on the claim goes by `mode=SHARED`; asking twice is the same as once.
        """

    async def detach(self, claim: Claim, ttl: float) -> bool:
        """Let the hold live on for `ttl` without this process, for `attach`; False if not held."""

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        """Swap the detached claim's id for the new one, and renew; None if it is gone.

        A compare-and-swap: of two that attach only the first succeeds (S15). Asked again with the
        same new claim it finds its own grant.
        """

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        """Swap the id back, if the attach was applied: the hold lives on for the detached claim's
        ttl. In any case bar a late attach. The claim is never heard of again.
        """

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        """Free the key by force: only where `raw` (if given) still holds it.

        Returns what was broken, or None if there was nothing to break. Where the engine
        `passes_notes`, the holder gets `Broken` with this note, from its next `renew` or as a
        notice. The note decides nothing, and goes away by itself.
        """

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        """Who holds and waits: of one key, or of all keys that are held or waited for."""

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        """`inspect` of all keys that begin with `prefix`, a namespace and its colon."""

    async def inspect_holders(self, key: str) -> list[LockInfo]:
        """`inspect` of one key; the waiters may be left out."""

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        """Have a signal rung when asking again may be worth it, until the context ends.

        `signal` makes a plain one; a backend that has something better to wait on gives that.
        """

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Call `on_notice(claim id, or None for all of them, what became of it)`, from any thread.
        HELD means that nothing is known against it, but that it should be renewed at once. An empty
        id is nobody's: it only wakes the keeper, which looks at `settles_at`.
        """

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        """For each of them something that names its server, as far as is known without asking:
        servers that fail one by one do not hold each other's releases up.
        """

    def hung_up(self) -> bool:
        """Whether the engine has hung up since the last look, without asking it: then all holds are
        renewed at once. Called on the keeper's backend, once a second.
        """

    def hold_check(self, claim: Claim) -> HoldCheck:
        """What a transaction of the program's own, in the database that keeps this hold, asks."""

    async def server(self) -> str:
        """The product and version that answer there, for people; empty if that is not known."""

    def checks(self, prefix: str) -> Sequence[Check]:
        """What can make locks unsafe or slow on this engine, as questions that only look. Called on
        a blocking backend, where they are asked as well; our keys begin with `prefix`.
        """

    async def settle(self) -> None:
        """Take back what a server could not be asked for when its claim was released by the others.
        Called on the keeper's backend, from `settles_at` on; it takes no longer than a command.
        """

    async def tidy(self) -> None:
        """Put the engine's own things in order, a little at a time. Called on the keeper's backend,
        seldom, while nobody waits; what it raises is of no consequence.
        """

    async def write_history(self, stream: str, texts: Sequence[str], keep: int) -> None:
        """Add these texts, of a few hundred bytes, to the end of a stream, with the engine's time.

        At least the newest `keep` of the stream stay, and about as many at the most; with `keep` 0
        the stream is removed. It has nothing to do with locks: called on a backend of its own, by
        a thread that nobody waits for, and again with the same texts if there was no answer.
        """

    async def read_history(self, stream: str, back: float | None = None) -> History:
        """The texts of a stream, oldest first: all, or those of the last `back` seconds."""

    @property
    def inside(self) -> Callable[[], bool]:
        """Says whether this thread is in the middle of a command, and another one would wait for
        it: asked before each call, because finalizers and signal handlers call from anywhere.
        """

    async def close(self) -> None:
        """Drop connections. What is held is released before, by the core."""

    def forked(self) -> None:
        """Called in a forked child: drop what was inherited, without a word to the engine."""

    def dropped(self) -> None:
        """Called on any thread: nobody has the client any more, though it may not be closed."""


class Engine(Protocol):
    """What a URL leads to: a maker of backends in both colours, registered for a scheme.

    Making one does not connect yet: the first command does. A backend takes time, signals and
    chance from its runtime.
    """

    id: str
    """Names the service, not the hosts: `all_of` orders by it across several Locks."""
    key_policy: KeyPolicy
    """What is done differently where other people's clients share the keys."""
    schema: str
    """Statements that an administrator can give the database beforehand; empty: there are none."""

    def blocking(self, runtime: Runtime) -> Backend:
        """One whose commands block the calling thread. Every keeper has one."""

    def asyncio(self, runtime: Runtime) -> Backend:
        """One whose commands suspend the calling task."""

    def anew(self) -> Engine:
        """The same engine without what it keeps for all of its backends (a mutex, a session, what
        it learned of the servers): a forked child goes on with it.
        """
