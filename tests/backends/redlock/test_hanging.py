"""A majority that hangs: whoever asks returns in time, and nothing of it is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from locknut.errors import BackendUnavailable, LocknutError
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.servers.processes import until
from tests.servers.redlock import RedlockNodes

pytestmark = [
    pytest.mark.redis,
    pytest.mark.faults,
    pytest.mark.parametrize("colour", list(COLOURS)),
]
LATE = 0.3
"""How late a caller may return, at most; and a busy machine's share."""
BUSY = 0.5
HOLDS = 40
"""So many that no time limit of each one's own could be meant."""


def took(
    nodes: RedlockNodes, colour: str, ask: Callable[[Any], Coroutine[Any, Any, object]]
) -> float:
    """How long it takes while two of three hang; then everything works, and nothing is left."""
    paint = COLOURS[colour]()

    async def story() -> float:
        locks: Any = paint.locks(open_engine(nodes.url)[0], Settings("locknut"))
        async with locks.lock("warm"):
            pass
        for node in nodes.nodes[:2]:
            node.stop()
        began = time.monotonic()
        with suppress(BackendUnavailable):
            assert await ask(locks) is None
        seconds = time.monotonic() - began
        for node in nodes.nodes[:2]:
            node.cont()
        async with locks.lock("x", timeout=20):
            pass
        await locks.close()
        return seconds

    seconds: float = paint.run(story())
    until(lambda: not any(n.ask("EXISTS", "locknut:{x}:redlock") for n in nodes.nodes), "an orphan")
    return seconds


@pytest.mark.parametrize("timeout", [0.2, 1.2])
def test_a_timeout_is_kept(three: RedlockNodes, colour: str, timeout: float) -> None:
    seconds = took(three, colour, lambda locks: locks.lock("x").acquire(timeout=timeout))
    assert seconds < timeout + LATE + BUSY


def test_a_try_is_over_within_a_second(three: RedlockNodes, colour: str) -> None:
    assert took(three, colour, lambda locks: locks.lock("x").acquire(blocking=False)) < 1 + BUSY


def test_closing_does_not_wait_for_them(three: RedlockNodes, colour: str) -> None:
    paint = COLOURS[colour]()

    async def story() -> float:
        locks: Any = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        for each in range(HOLDS):
            assert await locks.lock(f"held {each}").acquire(timeout=10) is not None
        for node in three.nodes[:2]:
            node.stop()
        began = time.monotonic()
        with suppress(LocknutError):
            await locks.close()
        seconds = time.monotonic() - began
        for node in three.nodes[:2]:
            node.cont()
        return seconds

    assert paint.run(story()) < 3 + BUSY
