"""Several locks at once, cancelled while they are taken or given back: on an engine that takes its
time, with and without the verbs for several keys.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from locknut import aio

TOGETHER = frozenset({"attempt_all", "release_all"})


class Slow:
    """A backend whose commands suspend before they are carried out, and after it."""

    def __init__(self, inner: Any, missing: frozenset[str], moment: int) -> None:
        self._inner = inner
        self._missing = missing
        self._moment = moment
        self.count = 0
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        if name == "batches":
            return not self._missing
        value = getattr(self._inner, name)
        if name not in {"attempt", "release"} | TOGETHER:
            return value

        async def slowly(*args: Any, **options: Any) -> Any:
            await self._step()
            answer = await value(*args, **options)
            await self._step()
            return answer

        return slowly

    async def _step(self) -> None:
        self.count += 1
        if self.count == self._moment:
            self.reached.set()
            await self.go_on.wait()
        await asyncio.sleep(0)


async def _cancelled(moment: int, missing: frozenset[str]) -> bool:
    """Whether there was such a moment."""
    async with aio.connect("memory:gathering") as locks:
        client: Any = locks._client
        slow = client.backend = Slow(client.backend, missing, moment)

        async def work() -> None:
            async with locks.all("a", "b", "c"):
                pass

        task = asyncio.create_task(work())
        reached = asyncio.create_task(slow.reached.wait())
        await asyncio.wait({task, reached}, return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        if not slow.reached.is_set():
            return False
        task.cancel()
        slow.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):  # the keeper clears up behind the cancelled
            while await locks.list():  # noqa: ASYNC110  # nobody rings for that
                await asyncio.sleep(0.01)
        assert not client.lines
        assert not client.holds
    return True


@pytest.mark.parametrize(
    ("missing", "least"), [(TOGETHER, 12), (frozenset(), 4)], ids=["in turn", "at once"]
)
def test_all_of_them_are_given_back(missing: frozenset[str], least: int) -> None:
    moment = 1
    while asyncio.run(_cancelled(moment, missing)):
        moment += 1
    assert moment - 1 == least, "commands, each with a moment before and one after it"


def test_an_uncontended_all_is_one_command_and_one_back() -> None:
    async def count(missing: frozenset[str]) -> int:
        async with aio.connect("memory:gathering-counted") as locks:
            client: Any = locks._client
            slow = client.backend = Slow(client.backend, missing, 0)
            async with locks.all("a", "b", "c", "d"):
                pass
            return slow.count // 2

    assert asyncio.run(count(frozenset())) == 2
    assert asyncio.run(count(TOGETHER)) == 8
