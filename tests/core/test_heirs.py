"""A hold is handed over inside the process, and is over before its heir wakes up; a release that
the engine refuses is not forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.memory import MemoryEngine
from locknut.core import losing, queueing
from locknut.core.holding import Hold
from locknut.runtimes import clock
from locknut.runtimes.loop import LoopRuntime

TTL = 60.0
PATIENCE = 20.0


class Clock:
    """Runs like the real one, and jumps when told to."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return clock.now() + self.ahead


def handed_over_and(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Any, Hold, Clock], None]
) -> None:
    """A task gets a hold by hand-over, and something happens to the hold before the task wakes."""
    monkeypatch.setattr(queueing, "COHORT_SECONDS", TTL)
    now = Clock()

    async def main() -> None:
        locks = aio.Locks(MemoryEngine(), runtime=LoopRuntime(now))
        client = locks._client
        client.keeper._closing = True  # so that nobody else notices
        waiting = asyncio.Event()
        locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
        lock = locks.lock("x", ttl=TTL)
        first = await lock.acquire()
        assert first is not None
        hold = first._hold
        heir = asyncio.create_task(lock.acquire())
        await waiting.wait()
        await first.release()
        assert hold.number == 1, "not handed over"
        meanwhile(client, hold, now)
        async with asyncio.timeout(PATIENCE):
            lease = await heir
        assert lease is not None
        assert lease.held
        assert lease._hold is not hold
        assert lease._hold.claim.id in client.holds
        assert lease.fence > first.fence + 1  # by a grant of its own, not by the hand-over
        await lease.release()
        await locks.close()

    asyncio.run(main())


def test_it_ran_out_before_the_heir_woke(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(_: Any, hold: Hold, now: Clock) -> None:
        assert not hold.ending
        now.ahead += 2 * TTL

    handed_over_and(monkeypatch, run_out)


def test_it_was_ended_before_the_heir_woke(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(client: Any, hold: Hold, _: Clock) -> None:
        losing.lose(client, hold, "broken")
        client.backend._engine.store.release(hold.claim, clock.now(), outcome_unknown=False)

    handed_over_and(monkeypatch, end)


@pytest.mark.parametrize("error", [locknut.BackendError, ZeroDivisionError, KeyboardInterrupt])
def test_a_release_that_the_engine_refuses_is_repeated_by_the_keeper(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    engine = MemoryEngine()
    with locknut.Locks(engine) as locks, locknut.Locks(engine) as others:
        lease = locks.lock("x").acquire()
        assert lease is not None
        asked: list[object] = []

        async def refuse(*claim: object, **_: object) -> bool:
            asked.append(claim)
            raise error("no")

        monkeypatch.setattr(locks._client.backend, "release", refuse)
        with pytest.raises(error):
            lease.release()
        assert len(asked) == 1
        assert others.lock("x").acquire(timeout=PATIENCE) is not None
