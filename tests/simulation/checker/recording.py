"""Has real processes tell their history, so that the checker judges them as it does simulations.

    record = Recorder(Journal(path), who=f"worker-{os.getpid()}")
    with record.holding(locks.lock("invoice:42", ttl=5), timeout=2) as lease:
        if lease is not None:
            ...

Events carry the boot-time clock, which all processes of one machine share. What is recorded is
never more than what was believed: a hold begins after acquire returned and ends before release is
called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from locknut.blocking.lease import Lease
from locknut.blocking.primitives import Lock
from locknut.core.holding import LeaseCore
from locknut.errors import LeaseLost, LocknutError
from locknut.runtimes import clock
from tests.simulation.checker.history import Event, Kind, Record

NEVER = float("inf")


class Recorder:
    """Tells what one process sees of its locks; from any thread."""

    def __init__(self, tell: Record, who: str, now: Callable[[], float] = clock.now) -> None:
        self._tell = tell
        self._who = who
        self._now = now
        self._numbers = count(1)

    @contextmanager
    def holding(self, lock: Lock, timeout: float | None = None) -> Iterator[Lease | None]:
        """Acquire, hold and release, each with its events; None if it was not to be had."""
        story = self.called(lock)
        try:
            lease = lock.acquire(timeout=timeout)
        except BaseException as error:
            kind = Kind.FAILED if isinstance(error, LocknutError) else Kind.CANCELLED
            self.tell(kind, lock.name, story, note=type(error).__name__)
            raise
        if lease is None:
            self.tell(Kind.TIMED_OUT, lock.name, story)
            yield None
            return
        self.acquired(story, lease)
        try:
            yield lease
        finally:
            self._release(story, lease)

    def called(self, lock: Lock) -> str:
        """An acquire begins: the name of its story."""
        story = f"{self._who}.{next(self._numbers)}"
        options = lock._request.options
        self.tell(
            Kind.CALLED,
            lock.name,
            story,
            mode=options.mode,
            permits=options.permits,
            owner=options.owner,
            fair=options.fair,
        )
        return story

    def acquired(self, story: str, lease: LeaseCore) -> None:
        until = _until(lease)
        self.tell(Kind.ACQUIRED, lease.name, story, fence=lease.fence, until=until)
        lease.on_lost(lambda lost: self._lost(story, lost))

    def checked(self, story: str, lease: LeaseCore) -> bool:
        """Whether the hold is still believed; renewals since the last look are told with it."""
        believed_at = self._now()
        if not lease.held:
            return False
        hold = lease._hold
        if hold.ttl is not None and hold.anchor > hold.since:
            # Told as of its sending: before the validity that it prolonged was over.
            renewal = Event(hold.anchor, self._who, Kind.RENEWED, lease.name, story)
            self._tell(renewal._replace(until=_until(lease)))
        self._tell(Event(believed_at, self._who, Kind.CHECKED, lease.name, story))
        return True

    def tell(self, kind: Kind, name: str, story: str, **more: Any) -> None:
        self._tell(Event(self._now(), self._who, kind, name, story, **more))

    def _release(self, story: str, lease: Lease) -> None:
        self.tell(Kind.RELEASE_CALLED, lease.name, story)
        try:
            lease.release()
        except LeaseLost:
            return  # told by its callback, or found just now: the belief has ended either way
        self.tell(Kind.RELEASED, lease.name, story)

    def _lost(self, story: str, lease: LeaseCore) -> None:
        self.tell(Kind.LOST, lease.name, story, note=lease.reason)


def _until(lease: LeaseCore) -> float | None:
    end = lease._hold.ends_at()
    return None if end == NEVER else end
