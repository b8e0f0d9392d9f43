"""The asyncio face of an election: work that one process does at a time, with stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from locknut.core import validation
from locknut.errors import BackendError, LeaseLost, LocknutError
from locknut.faces.election_base import EVERY, ElectionBase, LeaderWatch, TermBase, leader_of
from locknut.faces.misuse import for_async_with

if TYPE_CHECKING:
    from locknut.aio.lease import Lease, Lost
    from locknut.core.values import Holder

R = TypeVar("R")


@for_async_with
class Term(TermBase["Lease"]):
    """One time of leading. A `with` on it ends it, and swallows its loss: the loop goes on."""

    __module__ = "locknut.aio"  # in reprs: users know no other place

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """The end of leading by loss: `lost.wait(timeout)`, `lost.is_set()`."""
        return self.lease.lost

    async def __aenter__(self) -> Self:
        with suppress(LeaseLost):  # then the body is not cancelled: it ends with its first check
            await self.lease.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            await self.lease.__aexit__(kind, error, trace)
        except LeaseLost:
            return True  # the body ended by itself, or by our own cancellation
        return self._is_own_loss(error)


class Election(ElectionBase):
    """One leader at a time among all who take part. Tasks can share it."""

    __module__ = "locknut.aio"  # in reprs: users know no other place

    async def run(
        self,
        work: Callable[[Term], Coroutine[Any, Any, R]],
        timeout: validation.Duration | None = None,
    ) -> R:
        """Wait until we lead, do the work, stop leading. Return what the work returned.

        Raises LeaseLost if the lock was lost meanwhile, AcquireTimeout if the timeout expired.
        """
        async with self._lock(timeout) as lease:
            return await work(Term(lease))

    async def terms(self, timeout: validation.Duration | None = None) -> AsyncIterator[Term]:
        """Lead again and again: one term after the other, each waited for.

        An engine that cannot be reached is waited for. With `timeout` the last one has been when
        a wait takes longer, for whatever reason.
        """
        while True:
            acquired: list[Lease] = []
            await self._campaign(timeout, acquired)
            if not acquired:
                return
            try:
                yield Term(acquired[0])
            finally:
                await _end(acquired[0])

    async def leader(self) -> Holder | None:
        """Return who leads, as the engine sees it; None if nobody does."""
        return leader_of(await self._locks().info(self.name))

    def on_change(
        self,
        callback: Callable[[Holder | None], object],
        every: validation.Duration = EVERY,
    ) -> Callable[[], None]:
        """Call `callback(leader)` now and whenever another one leads. Return what ends this.

        It looks every second, or as often as `every` says.
        """
        pause, observer = validation.seconds(every, "every"), LeaderWatch(callback)

        async def observe() -> None:
            with suppress(LocknutError):  # closed
                while True:
                    with suppress(BackendError):  # not known: nothing has changed
                        observer.look(await self.leader())
                    await asyncio.sleep(pause)

        task = asyncio.get_running_loop().create_task(observe(), name=f"observer of {self.name}")

        def stop() -> None:
            task.cancel()

        return stop


async def _end(lease: Lease) -> None:
    """Stop leading, if a `with` has not done it already. A loss has been told."""
    if lease.held:
        with suppress(LeaseLost):
            await lease.release()
