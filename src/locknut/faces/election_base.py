"""What an election of either face is: who leads, what a term is, and how it is waited for.

A leader is whoever holds the lock of the election's name. A term is one hold of it: it ends with
the work, or with the loss of the hold, and there is no way to lead without work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from locknut.core import pacing, validation
from locknut.core.holding import LeaseCore
from locknut.core.values import Event, Holder, LockInfo
from locknut.errors import BackendUnavailable, LeaseLost
from locknut.faces import events

LeaseT = TypeVar("LeaseT", bound=LeaseCore)
EVERY: Final = 1.0
"""Seconds between two looks of an observer."""


class TermBase(Generic[LeaseT]):
    """One time of leading, from the grant of the lock to its end."""

    __slots__ = ("lease",)

    def __init__(self, lease: LeaseT):
        self.lease = lease
        """The hold of the election's lock."""

    @property
    def name(self) -> str:
        """The name of the election."""
        return self.lease.name

    @property
    def fence(self) -> int:
        """A number that is greater for every later term: let the resource refuse smaller ones."""
        return self.lease.fence

    @property
    def leads(self) -> bool:
        """Whether this term still goes on, by our own clock."""
        return self.lease.held

    def check(self) -> None:
        """Raise LeaseLost unless this term still goes on."""
        self.lease.check()

    def on_lost(self, callback: Callable[[Any], object]) -> None:
        """Call `callback(lease)` when the lock is lost (at once, if it already is)."""
        self.lease.on_lost(callback)

    def _is_own_loss(self, error: BaseException | None) -> bool:
        """Whether the body ended because this term was lost: then there may be another one."""
        return isinstance(error, LeaseLost) and not self.lease.held and error.key == self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name!r}: fence {self.fence}>"


class ElectionBase:
    """One leader at a time among all who take part."""

    def __init__(
        self, locks: Callable[[], Any], name: str, ttl: validation.Duration | None
    ) -> None:
        self.name = validation.name(name)
        self._locks = locks
        """Asked anew at every use."""
        self._ttl = ttl
        validation.ttl(ttl, 0, validation.FOREVER)

    def _lock(self, timeout: validation.Duration | None) -> Any:
        locks = self._locks()
        hub = locks._client.events
        if hub.measured:
            hub.election(events.Candidacy(locks.backend, self.name))
        return locks.lock(self.name, self._ttl, timeout)

    async def _campaign(self, timeout: validation.Duration | None, acquired: list[Any]) -> None:
        """Wait for a term: its lease is in the list when it is held; none is if the wait is over.

        An engine that cannot be reached is waited for.
        """
        tries, until = 0, self._until(timeout)
        while True:
            try:
                await self._lock(self._left(until))._acquire_into(acquired)
            except BackendUnavailable as error:
                tries += 1
                pause = self._out_of_reach(error, tries, until)
                if pause is None:
                    return
                runtime = self._locks()._client.runtime
                await runtime.signal().wait(runtime.now() + pause)
            else:
                return

    def _until(self, timeout: validation.Duration | None) -> float:
        """Until when a wait that begins now goes on, however often the engine fails meanwhile."""
        now: float = self._locks()._client.runtime.now()
        return now + validation.wait(timeout)

    def _left(self, until: float) -> float | None:
        if until == validation.FOREVER:
            return None
        now: float = self._locks()._client.runtime.now()
        return max(0.0, until - now)

    def _out_of_reach(self, error: BackendUnavailable, tries: int, until: float) -> float | None:
        """Tell that nobody can be elected now; return after how long to try again, if at all."""
        client = self._locks()._client
        if client.events.wants("timed_out"):
            client.emit_event(
                Event("timed_out", self.name, client.backend.name, reason=error.message)
            )
        pause = pacing.backoff(tries, client.runtime.random())
        return None if client.runtime.now() + pause >= until else pause

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.name!r}>"


def leader_of(info: LockInfo) -> Holder | None:
    """Return who holds the lock."""
    return info.holders[0] if info.holders else None


class LeaderWatch:
    """Calls back when another one leads than at the look before; the first look counts too."""

    __slots__ = ("_callback", "_seen")

    def __init__(self, callback: Callable[[Holder | None], object]):
        self._callback = callback
        self._seen: object = self

    def look(self, leader: Holder | None) -> None:
        """Call back if this is another leader than before: by who it is, and by its fence."""
        seen = None if leader is None else (leader.host, leader.pid, leader.raw, leader.label)
        if seen != self._seen:
            self._seen = seen
            try:
                self._callback(leader)
            except Exception:  # noqa: BLE001  # it is logged
                events.log_raised("a listener for leaders")
