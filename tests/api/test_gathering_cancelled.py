"""Several locks at once, cancelled while they are given back: on an engine that takes its time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import aio
from holdfast.core.values import Claim


async def _cancelled(moment: int) -> None:
    async with aio.connect("memory:gathering") as locks:
        backend: Any = locks._client.backend
        released, reached = backend.release, asyncio.Event()
        count = 0

        async def slowly(claim: Claim, *, doubtful: bool = False) -> Any:
            nonlocal count
            count += 1
            if count == moment:
                reached.set()
            await asyncio.sleep(0)
            return await released(claim, doubtful=doubtful)

        backend.release = slowly

        async def work() -> None:
            async with locks.all("a", "b", "c"):
                pass

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await locks.list() == []


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_all_of_them_are_given_back(moment: int) -> None:
    asyncio.run(_cancelled(moment))
