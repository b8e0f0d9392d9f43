"""An answer that took long tells little of the node's clock: the node is asked again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from locknut.backends.redlock.node_clocks import NodeClock
from locknut.core.values import Claim, Granted
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance.colours import COLOURS
from locknut.testing.proxy import FaultProxy
from locknut.urls import open_engine
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
SLOW = 0.3
"""Seconds: more than a clock may be off; less than a question takes at most."""


@pytest.fixture
def ways(three: RedlockNodes) -> Iterator[list[FaultProxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(FaultProxy((n.host, n.port))) for n in three.nodes]


@pytest.mark.parametrize("colour", list(COLOURS))
def test_who_answers_slowly_is_asked_again(ways: list[FaultProxy], colour: str) -> None:
    """Within one attempt, and once: how fast the second answer is depends on the machine."""
    hosts = ",".join(f"{way.host}:{way.port}" for way in ways)
    engine: Any = open_engine(f"redlock://{hosts}?durable=true")[0]
    warm, mine = (Claim("locknut:x", f"{each:032x}", 5.0) for each in (6, 7))

    def let_go() -> None:
        for way in ways:
            way.replies.release()

    async def body() -> None:
        port = (
            engine.blocking(ThreadRuntime())
            if colour == "blocking"
            else engine.asyncio(LoopRuntime())
        )
        assert isinstance(await port.attempt(warm, 0.0), Granted)
        await port.release(warm)
        engine._set.clocks[:] = [
            NodeClock() for _ in ways
        ]  # connected, and nothing is known of them
        for way in ways:
            way.replies.hold()
        timer = threading.Timer(SLOW, let_go)
        asked = 0
        vote = port._vote

        async def counted(*question: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                timer.start()
            return await vote(*question)

        port._vote = counted
        await port.attempt(mine, 0.0)
        assert asked == 2
        timer.join()
        await port.release(mine)
        await port.close()

    COLOURS[colour]().run(body())
