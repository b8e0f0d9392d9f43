"""What a ping asks of the engine: a lock that keeps nobody waiting, and is always given back."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core.pinging import NAME
from locknut.core.ports import Runtime
from locknut.core.values import Answer, Claim, Granted, Mode
from locknut.errors import BackendUnavailable
from locknut.opening import Settings
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.testing.conformance.colours import COLOURS

both_colours = pytest.mark.parametrize("colour", list(COLOURS))


class Told(MemoryBackend):
    """Notes what it is asked; loses the answer to the next attempts."""

    def __init__(self, engine: Engine, runtime: Runtime):
        super().__init__(engine, runtime)
        self._told = engine

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await super().attempt(claim, patience)
        self._told.asked.append(claim)
        if self._told.lost:
            self._told.lost -= 1
            raise BackendUnavailable("lost on the way")
        return answer

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self._told.released.append((claim, outcome_unknown))
        return await super().release(claim, outcome_unknown=outcome_unknown)


class Engine(MemoryEngine):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Claim] = []
        self.released: list[tuple[Claim, bool]] = []
        self.lost = 0

    def blocking(self, runtime: Runtime) -> MemoryBackend:
        return Told(self, runtime)

    def asyncio(self, runtime: Runtime) -> MemoryBackend:
        return Told(self, runtime)


def ping(engine: Engine, colour: str) -> None:
    paint = COLOURS[colour]()

    async def story() -> None:
        locks: Any = paint.locks(engine, Settings("t"))
        await locks.ping(timeout=0.1)
        await locks.close()

    paint.run(story())


def hold(engine: Engine, mode: Mode) -> None:
    claim = Claim(f"t:{NAME}", "1" * 32, 60.0, mode)
    assert isinstance(run(MemoryBackend(engine, ThreadRuntime()).attempt(claim, 0.0)), Granted)


@both_colours
def test_one_who_stopped_in_the_middle_of_a_ping_keeps_nobody_from_it(colour: str) -> None:
    engine = Engine()
    hold(engine, Mode.SHARED)
    ping(engine, colour)


@both_colours
def test_it_stands_in_no_line_and_tells_who_sits_on_its_name(colour: str) -> None:
    engine = Engine()
    hold(engine, Mode.EXCLUSIVE)
    with pytest.raises(BackendUnavailable, match=NAME):
        ping(engine, colour)
    assert engine.asked
    assert not any(claim.waits for claim in engine.asked)


@both_colours
def test_one_that_was_not_answered_is_taken_back_for_good(colour: str) -> None:
    """It may be applied after that, and must find a tombstone (L3)."""
    engine = Engine()
    engine.lost = 1
    with pytest.raises(BackendUnavailable, match="lost on the way"):
        ping(engine, colour)
    assert engine.released == [(engine.asked[0], True)]
