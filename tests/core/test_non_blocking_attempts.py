"""A non-blocking attempt (`timeout=0`) is not put in an engine's line: it leaves nothing there."""

from __future__ import annotations

import asyncio

import pytest

from locknut import aio
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core.ports import Runtime
from locknut.core.values import Answer, Busy, Claim
from locknut.errors import BackendUnavailable
from locknut.runtimes.loop import LoopRuntime


class Told(MemoryBackend):
    """Notes what it is asked; may lose its next answers, and may put everybody in line."""

    def __init__(self, engine: MemoryEngine, runtime: Runtime):
        super().__init__(engine, runtime)
        self.released: list[tuple[Claim, bool]] = []
        self.lost = 0
        self.lines_all = False
        self.hold_up = asyncio.Event()
        self.hold_up.set()

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await super().attempt(
            claim._replace(waits=claim.waits or self.lines_all), patience
        )
        if self.lost:
            self.lost -= 1
            await self.hold_up.wait()
            raise BackendUnavailable("lost on the way")
        return answer

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self.released.append((claim, outcome_unknown))
        return await super().release(claim, outcome_unknown=outcome_unknown)


class Engine(MemoryEngine):
    def asyncio(self, runtime: Runtime) -> MemoryBackend:
        return Told(self, runtime)


async def _held() -> tuple[aio.Lease, aio.Locks, Told]:
    engine = Engine()
    held = await aio.Locks(engine).lock("x").acquire()
    here = aio.Locks(engine)
    backend = here._client.backend
    assert held is not None
    assert isinstance(backend, Told)
    return held, here, backend


def test_nothing_is_taken_back() -> None:
    async def story() -> None:
        held, here, backend = await _held()
        assert await here.lock("x").acquire(blocking=False) is None
        assert not (await here.info("x")).waiters
        assert not backend.released
        assert await here.lock("x").acquire(timeout=0.01) is None
        assert len(backend.released) == 1, "it waited, so it stood in line"
        await held.release()

    asyncio.run(story())


def test_an_engine_that_puts_it_in_line_is_told() -> None:
    """As engines do that make no difference for non-blocking attempts."""

    async def story() -> None:
        held, here, backend = await _held()
        backend.lines_all = True
        assert await here.lock("x").acquire(timeout=0) is None
        assert len(backend.released) == 1
        assert not (await here.info("x")).waiters
        await held.release()

    asyncio.run(story())


def test_with_an_answer_lost_it_is_taken_back_for_good() -> None:
    """The lost sending may still be applied, and would be granted once the lock is free (L3)."""

    async def story() -> None:
        held, here, backend = await _held()
        backend.lost = 1
        assert await here.lock("x").acquire(timeout=0) is None
        assert [outcome_unknown for _, outcome_unknown in backend.released] == [True]
        await held.release()
        assert not (await here.info("x")).locked

    asyncio.run(story())


def test_who_waits_behind_it_gets_a_place_of_its_own() -> None:
    async def story() -> None:
        held, here, backend = await _held()
        backend.lost = 1
        backend.hold_up.clear()
        tries = asyncio.create_task(here.lock("x").acquire(timeout=0))
        await asyncio.sleep(0)
        waits = asyncio.create_task(here.lock("x").acquire(timeout=60))
        await asyncio.sleep(0)
        backend.hold_up.set()
        assert await tries is None
        while not (await here.info("x")).waiters:
            assert not waits.done()
            await asyncio.sleep(0.001)
        await held.release()
        async with asyncio.timeout(10):
            lease = await waits
        assert lease is not None
        assert lease._hold.claim.waits
        await lease.release()

    asyncio.run(story())


@pytest.mark.parametrize("waits", [True, False])
def test_the_claim_says_so(waits: bool) -> None:
    engine = MemoryEngine()
    port = engine.asyncio(LoopRuntime())
    holder = Claim("n:x", "1" * 32)

    async def story() -> None:
        await port.attempt(holder, 0.0)
        answer = await port.attempt(Claim("n:x", "2" * 32, waits=waits), 0.0)
        assert isinstance(answer, Busy)
        assert answer.queued is waits
        (info,) = await port.inspect("n:x")
        assert len(info.waiters) == waits

    asyncio.run(story())
