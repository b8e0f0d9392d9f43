"""The blocking face as asyncio code would see it, so that one test body serves both colours.

What is a coroutine method in `locknut.aio` is awaited here too; it blocks, and is then there. A
body that only awaits such methods finishes in one step, exactly as the core does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import locknut
from locknut import aio
from locknut.aio import barriers as aio_barriers
from locknut.aio import leadership as aio_leadership
from locknut.aio import lease as aio_lease
from locknut.aio import scheduled_run as aio_scheduled_run
from locknut.blocking.barriers import Barrier, Latch
from locknut.blocking.leadership import Election, Term
from locknut.blocking.lease import Lost
from locknut.blocking.scheduled_run import Once
from locknut.runtimes.cpython import is_coroutine_function

_TWINS: dict[type, type] = {
    locknut.Locks: aio.Locks,
    locknut.Lock: aio.Lock,
    locknut.RWLock: aio.RWLock,
    locknut.Semaphore: aio.Semaphore,
    locknut.LockGroup: aio.LockGroup,
    locknut.Lease: aio.Lease,
    locknut.Leases: aio.Leases,
    Lost: aio_lease.Lost,
    Once: aio_scheduled_run.Once,
    Election: aio_leadership.Election,
    Term: aio_leadership.Term,
    Barrier: aio_barriers.Barrier,
    Latch: aio_barriers.Latch,
}


class Awaited:
    """One object of the blocking face; equal to every other view of the same object."""

    def __init__(self, inner: Any):
        self._inner = inner
        self._twin = _TWINS[type(inner)]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return awaited(value)
        if is_coroutine_function(getattr(self._twin, name)):
            return _awaiting(value)
        return lambda *args, **kwargs: awaited(value(*args, **kwargs))

    async def __aenter__(self) -> Any:
        return awaited(self._inner.__enter__())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        return self._inner.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[Any]:
        return map(awaited, self._inner)

    def __eq__(self, other: object) -> bool:
        return bare(self) is bare(other)

    def __hash__(self) -> int:
        return hash(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)


def awaited(value: Any) -> Any:
    """What belongs to the blocking face, as `Awaited`; everything else as it is."""
    return Awaited(value) if type(value) in _TWINS else value


def bare(value: Any) -> Any:
    """The object itself, of whichever face."""
    return value._inner if isinstance(value, Awaited) else value


def _awaiting(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return awaited(method(*args, **kwargs))

    return call
