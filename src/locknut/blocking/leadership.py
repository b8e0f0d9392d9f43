"""The blocking face of an election: work that one process does at a time, with stand-ins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from locknut.blocking.lease import Lease, Lost, on_interrupt
from locknut.core import validation
from locknut.errors import BackendError, LeaseLost, LocknutError
from locknut.faces.election_base import EVERY, ElectionBase, LeaderWatch, TermBase, leader_of
from locknut.faces.misuse import for_with
from locknut.runtimes import cpython
from locknut.runtimes.threads import run

if TYPE_CHECKING:
    from locknut.core.values import Holder

R = TypeVar("R")


@for_with
class Term(TermBase[Lease]):
    """One time of leading. A `with` on it ends it, and swallows its loss: the loop goes on."""

    __module__ = "locknut"  # in reprs: users know no other place

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """The end of leading by loss: `lost.wait(timeout)`, `lost.is_set()`."""
        return self.lease.lost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            self.lease.__exit__(kind, error, trace)
        except LeaseLost:
            return error is None
        return self._is_own_loss(error)


class Election(ElectionBase):
    """One leader at a time among all who take part. Threads can share it."""

    __module__ = "locknut"  # in reprs: users know no other place

    def run(self, work: Callable[[Term], R], timeout: validation.Duration | None = None) -> R:
        """Wait until we lead, do the work, stop leading. Return what the work returned.

        Raises LeaseLost if the lock was lost meanwhile, AcquireTimeout if the timeout expired.
        """
        with self._lock(timeout) as lease:
            return work(Term(lease))

    def terms(self, timeout: validation.Duration | None = None) -> Iterator[Term]:
        """Lead again and again: one term after the other, each waited for.

        An engine that cannot be reached is waited for. With `timeout` the last one has been when
        a wait takes longer, for whatever reason.
        """
        while True:
            acquired: list[Lease] = []
            try:
                run(self._campaign(timeout, acquired))
                if not acquired:
                    return
                yield Term(acquired[0])
            finally:
                if acquired:
                    lease = acquired[0]
                    entered = lease._count
                    try:
                        _end(lease)
                    except BaseException as error:
                        on_interrupt(error, lease._release_again, entered)
                        raise

    def leader(self) -> Holder | None:
        """Return who leads, as the engine sees it; None if nobody does."""
        return leader_of(self._locks().info(self.name))

    def on_change(
        self,
        callback: Callable[[Holder | None], object],
        every: validation.Duration = EVERY,
    ) -> Callable[[], None]:
        """Call `callback(leader)` now and whenever another one leads. Return what ends this.

        It looks every second, or as often as `every` says.
        """
        pause, observer, stopped = (
            validation.seconds(every, "every"),
            LeaderWatch(callback),
            _Stop(),
        )

        def observe() -> None:
            while not stopped.is_set():
                with suppress(BackendError):  # who leads is not known: nothing has changed
                    observer.look(self.leader())
                stopped.wait(pause)

        name = f"locknut-observer-{self.name}"
        # Not waited for: an interrupt (Ctrl-C) in that wait may come out as a RuntimeError.
        cpython.UnawaitedThread(
            target=_until_closed, args=(observe,), name=name, daemon=True
        ).start()
        return stopped.set


_Stop = threading.Event


def _until_closed(observe: Callable[[], Any]) -> None:
    with suppress(LocknutError):
        observe()


def _end(lease: Lease) -> None:
    """Stop leading, if a `with` has not done it already. A loss has been told."""
    if lease.held:
        with suppress(LeaseLost):
            lease.release()
