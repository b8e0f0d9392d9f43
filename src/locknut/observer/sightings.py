"""What an observer remembers: spans of holds and waits, happenings, concerns, and the picture."""

from __future__ import annotations

import enum
from typing import NamedTuple

from locknut import Holder, LockInfo, Mode

NEVER = float("inf")


class Ending(enum.StrEnum):
    """How a hold or a wait was seen to end."""

    OPEN = ""
    """It goes on."""
    RELEASED = "released"
    EXPIRED = "expired"
    """Its holder did not renew it, and the ttl ran out."""
    BROKEN = "broken"
    LOST = "lost"
    """Its holder said so itself."""
    UNSEEN = "unseen"
    """It ended while the engine could not be reached, so nobody knows how."""
    GRANTED = "granted"
    LEFT = "left the line"
    """A waiter that is not there any more: it gave up, or had the lock for less than a listing."""

    @property
    def bad(self) -> bool:
        """Whether the holder did not end it by itself."""
        return self in {Ending.EXPIRED, Ending.BROKEN, Ending.LOST}


class Identity(NamedTuple):
    """Who holds or waits, as one and the same from one listing to the next.

    A hold is told from the next one of the same thread by its number; a waiter has none yet.
    """

    host: str
    pid: int | None
    who: str
    label: str
    owner: str | None
    mode: Mode
    raw: int | None

    @classmethod
    def of(cls, holder: Holder) -> Identity:
        return cls(
            holder.host,
            holder.pid,
            holder.who,
            holder.label,
            holder.owner,
            holder.mode,
            holder.raw,
        )

    @property
    def person(self) -> Identity:
        """The same without the number: whoever waited and then holds is one person."""
        return self._replace(raw=None)


class Span(NamedTuple):
    """A hold or a wait from its beginning to its end, in seconds since the epoch."""

    name: str
    holder: Holder
    since: float
    until: float | None = None
    ending: Ending = Ending.OPEN
    note: str = ""
    """What was said about its end."""

    def lasted(self, now: float) -> float:
        return max(0.0, (now if self.until is None else self.until) - self.since)


class Happening(NamedTuple):
    """One line of the page of events."""

    at: float
    kind: str
    name: str
    who: str = ""
    fence: int | None = None
    detail: str = ""


class Weight(enum.IntEnum):
    """How much a concern matters: the greater, the higher it stands."""

    NOTE = 1
    WARNING = 2
    TROUBLE = 3


class Concern(NamedTuple):
    """Something that needs attention."""

    weight: Weight
    kind: str
    """unreachable, deadlock, long hold, long wait, expiring, expired, lost, broken, server, history
    or doctor; of what the doctor found, its code."""
    title: str
    detail: str = ""
    name: str = ""
    """The lock that it is about; empty if it is about no single lock."""
    since: float | None = None


class Moment(NamedTuple):
    """One point of the charts."""

    at: float
    held: int
    waiting: int
    longest: float
    """Seconds that the longest wait has lasted."""
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None


class Picture(NamedTuple):
    """What the last listing showed."""

    version: int = 0
    locks: tuple[LockInfo, ...] = ()
    at: float | None = None
    """When it was made; None before the first one."""
    took: float = 0.0
    pause: float = 0.0
    """Seconds until the next one."""
    problem: str = ""
    """Why the engine could not be asked; the locks are those of the last time that it could."""
    unreachable_since: float | None = None
    began: float = 0.0
    """When this listing was begun, on the monotonic clock."""

    @property
    def held(self) -> int:
        return sum(len(each.holders) for each in self.locks)

    @property
    def waiting(self) -> int:
        return sum(len(each.waiters) for each in self.locks)
