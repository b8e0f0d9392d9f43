"""An election as asyncio code sees it, of either face: one body of a test serves both colours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from locknut.runtimes.threads import run
from locknut.testing.conformance.awaitable_face import Awaited, awaited, bare

Work = Callable[[Any], Coroutine[Any, Any, Any]]


async def lead(election: Any, work: Work, timeout: float | None = None) -> Any:
    """`election.run(work)`; blocking work is a coroutine that is done in one step."""
    if not isinstance(election, Awaited):
        return await election.run(work, timeout)
    return bare(election).run(lambda term: run(work(awaited(term))), timeout)


async def terms(election: Any, timeout: float | None = None) -> AsyncIterator[Any]:
    """`election.terms()`."""
    if isinstance(election, Awaited):
        for term in bare(election).terms(timeout):
            yield awaited(term)
    else:
        async for term in election.terms(timeout):
            yield term
