"""Celery beat with stand-ins: which of several beats sends, and what a new leader makes up for."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any, NamedTuple

from celery.beat import PersistentScheduler

import locknut
from locknut.core.validation import Duration, seconds
from locknut.errors import BackendError, LocknutError

_log = logging.getLogger("locknut.contrib.celery_beat")
_SESSION = 15.0
"""For how many seconds an engine that does not tell may keep the lock of a beat that is dead."""


class LeaderMixin:
    """Makes a scheduler of Celery beat one of several: `class Mine(LeaderMixin, Scheduler)`.

    All of them go through the schedule, so that each knows what is due next. Only the one with the
    lock sends. A beat that loses the lock goes on as a stand-in; whoever gets it next sends what
    fell due after the leader was last known to live, once for each entry.
    """

    lock_name: str | None = None
    """The name of the lock; by default "celery-beat:" and the name of the app."""
    lock_ttl: Duration = 10.0
    """After how long a leader that was killed is noticed."""
    look_every: Duration = 1.0
    """How often a stand-in looks whether it can lead."""
    locks: locknut.Locks | None = None
    """Where the lock is; by default at $LOCKNUT_URL."""

    app: Any
    schedule: Any
    _lease: locknut.Lease | None = None
    _leader_lived = float("-inf")
    """When another leader was alive, as far as is known."""
    _runs_out = float("-inf")
    """When the lock of that leader would end without a renewal."""
    _looked = float("-inf")
    _told: object = None

    def __init__(self, *args: Any, **kwargs: Any):
        self._withheld: dict[str, _Due] = {}
        super().__init__(*args, **kwargs)

    @property
    def leads(self) -> bool:
        """Whether this beat sends what is due."""
        return self._lease is not None and self._lease.held

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Look whether we lead, then go through the schedule as beat does."""
        if not self.leads:
            self._campaign()
        pause: float = super().tick(*args, **kwargs)  # type: ignore[misc]  # the scheduler's
        return min(pause, seconds(self.look_every, "look_every"))

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send the task of an entry if we lead; otherwise remember that it was due."""
        if self.leads:
            super().apply_entry(entry, producer=producer)  # type: ignore[misc]  # the same
        else:
            self._withheld[entry.name] = _Due(time.monotonic(), entry)

    def sync(self) -> None:
        """Write the schedule down, if it is ours: a stand-in has sent nothing."""
        if self.leads:
            super().sync()  # type: ignore[misc]  # the same

    def close(self) -> None:
        """End as beat does, and let a stand-in lead at once."""
        try:
            super().close()  # type: ignore[misc]  # the same
        finally:
            lease, self._lease = self._lease, None
            if lease is not None:
                with suppress(LocknutError):
                    lease.release()

    def _campaign(self) -> None:
        locks = self.locks or locknut.default()
        name = self.lock_name or f"celery-beat:{self.app.main or 'celery'}"
        try:
            self._lease = locks.lock(name, self.lock_ttl).acquire(blocking=False)
            if self._lease is None:
                self._look_at_the_leader(locks, name)
        except BackendError as error:
            self._tell(logging.WARNING, "beat sends nothing while nobody can lead: %s", error)
        else:
            if self._lease is not None:
                self._lead()

    def _look_at_the_leader(self, locks: locknut.Locks, name: str) -> None:
        """Note until when the leader has certainly lived: it sent what was due by then."""
        now = time.monotonic()
        holder = next(iter(locks.info(name).holders), None)
        if holder is None:
            return
        self._looked = now
        if holder.ttl_left is not None:
            self._runs_out = now + holder.ttl_left
            lived = self._runs_out - seconds(self.lock_ttl, "lock_ttl")
        else:  # on `file:` the kernel frees the lock with the process
            self._runs_out = now
            lived = now if locks.backend == "file" else now - _SESSION
        self._leader_lived = max(self._leader_lived, lived)
        self._tell(logging.INFO, "beat stands by: %s leads", holder)

    def _lead(self) -> None:
        now = time.monotonic()
        if now < self._runs_out - 1.0:  # it did not run out: the leader lived to release it
            self._leader_lived = max(self._leader_lived, self._looked)
        self._tell(logging.INFO, "beat leads: %s", self._lease)
        due, self._withheld = self._withheld, {}
        for name, (since, entry) in due.items():
            if since > self._leader_lived and name in self.schedule:
                _log.warning("beat makes up for %s, due %.1f s ago", name, now - since)
                self.apply_entry(entry, producer=self.producer)

    def _tell(self, level: int, message: str, about: object) -> None:
        """Log it, unless it was the last thing that was said."""
        if (message, str(about)) != self._told:
            self._told = message, str(about)
            _log.log(level, message, about)

    producer: Any


class _Due(NamedTuple):
    """An entry that was due while we did not lead."""

    since: float
    entry: Any


class LeaderScheduler(LeaderMixin, PersistentScheduler):  # type: ignore[misc]  # Celery has no types
    """Celery's own scheduler, of which one sends: `celery -A shop beat -S ...:LeaderScheduler`."""


__all__ = [
    "LeaderMixin",
    "LeaderScheduler",
]
