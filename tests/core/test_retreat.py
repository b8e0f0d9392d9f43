"""Giving up is done once, whatever interrupts it."""

from __future__ import annotations

import asyncio
import threading

import pytest

import locknut
from locknut import aio
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core import pacing
from locknut.core.ports import Runtime
from locknut.core.values import Claim
from locknut.errors import BackendUnavailable
from locknut.runtimes.deadlines import time_left


class SlowToRelease(MemoryBackend):
    """Its releases wait until the test lets them go on."""

    def __init__(self, engine: MemoryEngine, runtime: Runtime):
        super().__init__(engine, runtime)
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self.asked.set()
        await self.go_on.wait()
        return await super().release(claim, outcome_unknown=outcome_unknown)


class Engine(MemoryEngine):
    def asyncio(self, runtime: Runtime) -> MemoryBackend:
        return SlowToRelease(self, runtime)


async def _cancelled_while_it_gives_up() -> None:
    """The one that has the turn times out, and is cancelled while its claim is withdrawn."""
    engine = Engine()
    elsewhere, here = aio.Locks(engine), aio.Locks(engine)
    backend = here._client.backend
    assert isinstance(backend, SlowToRelease)
    held = await elsewhere.lock("x").acquire()
    assert held is not None
    backend.go_on.clear()
    gives_up = asyncio.create_task(here.lock("x").acquire(timeout=0.01))
    await backend.asked.wait()
    second = asyncio.create_task(here.lock("x", max_hold=60).acquire(timeout=60))
    third = asyncio.create_task(here.lock("x", max_hold=60).acquire(timeout=60))
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.sleep(0)
    backend.go_on.set()
    await asyncio.wait([gives_up])
    assert gives_up.cancelled()
    # The turn went to the second alone: the third still waits in the line of this process.
    (line,) = here._client.lines.values()
    assert len(line.waiters) == 1
    assert len((await elsewhere.info("x")).waiters) == 1
    await held.release()
    for task in (second, third):
        lease = await task
        assert lease is not None
        await lease.release()
    assert not here._client.lines
    assert await elsewhere.list() == []
    await here.close()
    await elsewhere.close()


def test_the_turn_is_passed_on_once() -> None:
    asyncio.run(asyncio.wait_for(_cancelled_while_it_gives_up(), 30))


async def _cancelled_with_a_withdrawal_under_way() -> None:
    """The same, and it leaves before the withdrawal is answered, which goes on behind it. Whoever
    is next in this process, and wants the same, must not go on with that claim.
    """
    engine = Engine()
    elsewhere, here = aio.Locks(engine), aio.Locks(engine)
    backend = here._client.backend
    assert isinstance(backend, SlowToRelease)
    held = await elsewhere.lock("x").acquire()
    assert held is not None
    backend.go_on.clear()
    gives_up = asyncio.create_task(here.lock("x").acquire(timeout=0.01))
    await backend.asked.wait()
    next_here = asyncio.create_task(here.lock("x").acquire(timeout=60))
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.wait([gives_up])
    assert gives_up.cancelled()
    await held.release()
    # It has come after the first; that one may still be granted, until it is withdrawn.
    await asyncio.wait([next_here], timeout=pacing.GRACE)
    backend.go_on.set()
    lease = await next_here
    assert lease is not None
    await here._client.runtime.settle(here._client.runtime.now() + 30)
    assert await elsewhere.lock("x").acquire(timeout=0) is None, "two hold it"
    await lease.release()
    assert await elsewhere.list() == []
    await here.close()
    await elsewhere.close()


def test_a_claim_that_is_withdrawn_behind_its_caller_is_not_left_to_an_heir() -> None:
    asyncio.run(asyncio.wait_for(_cancelled_with_a_withdrawal_under_way(), 30))


class NeedsHalfASecond(MemoryBackend):
    """Its releases do: closing has closed their connections, and a busy server opens others."""

    closed = threading.Event()

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        left = time_left(60)
        self.closed.wait(60)
        if left < 0.5:
            raise BackendUnavailable("no time is left")
        return await super().release(claim, outcome_unknown=outcome_unknown)


class BusyEngine(MemoryEngine):
    def blocking(self, runtime: Runtime) -> MemoryBackend:
        return NeedsHalfASecond(self, runtime)


def test_a_waiter_that_closing_sends_away_has_nobody_to_leave_its_claim_to() -> None:
    """It stood in line for as long as its ttl, and others waited behind it."""
    engine = BusyEngine()
    elsewhere, here = locknut.Locks(engine), locknut.Locks(engine)
    heard = threading.Event()
    here.on_event(lambda event: heard.set() if event.kind == "waiting" else None)
    held = elsewhere.lock("x").acquire()
    assert held is not None

    def wait() -> None:
        with pytest.raises(locknut.ConfigurationError, match="closed"):
            here.lock("x").acquire()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert heard.wait(60)
    here.close()
    NeedsHalfASecond.closed.set()
    waiter.join(60)
    assert elsewhere.info("x").waiters == ()
    held.release()
    elsewhere.close()
