"""A minority that is away costs nothing; a majority that is away is told at once, and by name."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from locknut.errors import BackendUnavailable
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = [pytest.mark.redis, pytest.mark.parametrize("colour", list(COLOURS))]
TROUBLES = {"killed": RedisServer.kill, "hung": RedisServer.stop}
SLOW = 10.0
"""Seconds that a node is given to answer: so many that nobody can have waited for one of them."""
PAIRS = 20


def run(colour: str, url: str, body: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    paint = COLOURS[colour]()

    async def whole() -> None:
        locks: Any = paint.locks(open_engine(url)[0], Settings("locknut"))
        async with locks.lock("x"):
            pass
        await body(locks)
        await locks.close()

    paint.run(whole())


@pytest.mark.timeout(SLOW * PAIRS / 2)
@pytest.mark.parametrize("down", [("hung",), ("killed",), ("hung", "killed"), ("hung", "hung")])
def test_a_minority_is_not_waited_for(
    five: RedlockNodes, colour: str, down: tuple[str, ...]
) -> None:
    async def body(locks: Any) -> None:
        for node, trouble in zip(five.nodes, down, strict=False):
            TROUBLES[trouble](node)
        for _ in range(PAIRS):
            lease = await locks.lock("x").acquire(timeout=30)
            assert lease.held
            await lease.renew()
            await lease.release()

    run(colour, f"{five.url}&node_timeout={SLOW:g}", body)


@pytest.mark.parametrize("trouble", list(TROUBLES))
def test_a_majority_that_is_away_is_told_by_name_and_comes_back(
    five: RedlockNodes, colour: str, trouble: str
) -> None:
    async def body(locks: Any) -> None:
        for node in five.nodes[:3]:
            TROUBLES[trouble](node)
        with pytest.raises(BackendUnavailable, match="no majority of 5 nodes") as caught:
            await locks.lock("x").acquire(blocking=False)
        for node in five.nodes[:3]:
            assert f"{node.host}:{node.port}" in str(caught.value)
        told = str(caught.value).partition(" nodes: ")[2].removesuffix(" [lock 'x' on redlock]")
        assert "[" not in told.replace("[Errno ", ""), "an answer as it came is no help"
        for node in five.nodes[:3]:
            node.start()
        async with locks.lock("x", timeout=30) as lease:
            assert lease.held

    run(colour, five.url, body)


@pytest.mark.timeout(60)
def test_dead_nodes_are_not_asked_over_and_over(five: RedlockNodes, colour: str) -> None:
    """Nobody waits to find out again what is known: a hundred refusals take no hundred waits."""

    async def body(locks: Any) -> None:
        for node in five.nodes[:3]:
            node.kill()
        for _ in range(100):
            with pytest.raises(BackendUnavailable):
                await locks.lock("x").acquire(blocking=False)

    run(colour, f"{five.url}&node_timeout={SLOW:g}", body)


@pytest.mark.timeout(40)
@pytest.mark.slow
def test_a_majority_that_hangs_is_waited_for_once(five: RedlockNodes, colour: str) -> None:
    """Each time would be two seconds."""

    async def body(locks: Any) -> None:
        for node in five.nodes[:3]:
            node.stop()
        for each in range(40):  # another one each time: of the last a command may still be out
            with pytest.raises(BackendUnavailable, match="no answer"):
                await locks.lock(f"x {each}").acquire(blocking=False)
        for node in five.nodes[:3]:
            node.cont()
        async with locks.lock("x", timeout=30) as lease:
            assert lease.held

    run(colour, f"{five.url}&node_timeout=0.05", body)
