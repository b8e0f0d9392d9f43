"""A ping of an engine in trouble: told in time, by the right error, and nothing stays behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from locknut import aio
from locknut.core import pinging
from locknut.core.pinging import NAME
from locknut.errors import BackendError, BackendUnavailable
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.redis.conftest import eventually, left_behind
from tests.servers.ports import Ports
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.faults
both_colours = pytest.mark.parametrize("colour", list(COLOURS))
LATE = 1.0
"""How late a ping may return: a busy machine's share is most of it."""
Do = Callable[[], object]


@pytest.fixture(autouse=True)
def _nothing_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the ttl of a ping would clear up what the ping should."""
    monkeypatch.setattr(pinging, "_TTL", 60.0)


def story(url: str, colour: str, stop: Do, go_on: Do) -> None:
    """It works, then not, which takes no longer than its timeout, and then it works again."""
    paint = COLOURS[colour]()

    async def told() -> None:
        locks: Any = paint.locks(open_engine(url)[0], Settings("t"))
        await locks.ping(timeout=60)
        stop()
        try:
            began = time.monotonic()
            with pytest.raises(BackendUnavailable):
                await locks.ping(timeout=0.5)
            assert time.monotonic() - began < 0.5 + LATE
        finally:
            go_on()
        give_up = time.monotonic() + 60
        while True:
            try:
                await locks.ping(timeout=20)
                break
            except BackendUnavailable:
                assert time.monotonic() < give_up
        while await locks.list():
            assert time.monotonic() < give_up, "something was left behind"
        await locks.close()

    paint.run(told())


@pytest.mark.redis
@both_colours
def test_a_redis_that_hangs(colour: str) -> None:
    with RedisServer() as server:
        story(server.url, colour, server.stop, server.cont)
        eventually(lambda: not left_behind(server), "something was left behind")


@pytest.mark.zookeeper
@both_colours
def test_a_zookeeper_that_hangs(colour: str) -> None:
    with ZooKeeperServer() as server:
        story(server.url, colour, server.stop, server.cont)


@pytest.mark.redlock
@both_colours
def test_a_majority_that_hangs(colour: str) -> None:
    with RedlockNodes(3) as nodes:

        def each(what: str, some: list[RedisServer]) -> None:
            for node in some:
                getattr(node, what)()

        two = nodes.nodes[:2]
        story(nodes.url, colour, lambda: each("stop", two), lambda: each("cont", two))
        key = f"t:{{{NAME}}}:redlock"
        eventually(lambda: not any(n.ask("EXISTS", key) for n in nodes.nodes), "an orphan")


@pytest.mark.redlock
@both_colours
def test_a_minority_that_is_gone_is_no_trouble(colour: str) -> None:
    paint = COLOURS[colour]()

    async def told() -> None:
        locks: Any = paint.locks(open_engine(nodes.url)[0], Settings("t"))
        nodes.nodes[0].kill()
        assert (await locks.ping(timeout=60)).backend == "redlock"
        await locks.close()

    with RedlockNodes(3) as nodes:
        paint.run(told())


@pytest.mark.redis
@both_colours
def test_a_wrong_password_is_a_refusal(colour: str, redis_password_server: RedisServer) -> None:
    url = f"redis://:wr0ng@127.0.0.1:{redis_password_server.port}"
    paint = COLOURS[colour]()

    async def told() -> None:
        locks: Any = paint.locks(open_engine(url)[0], Settings("t"))
        with pytest.raises(BackendError) as caught:
            await locks.ping(timeout=60)
        assert not isinstance(caught.value, BackendUnavailable)
        assert "wr0ng" not in str(caught.value)
        await locks.close()

    paint.run(told())


@both_colours
def test_nobody_listens(colour: str) -> None:
    ports = Ports()
    (port,) = ports.reserve(1)
    paint = COLOURS[colour]()

    async def told() -> None:
        locks: Any = paint.locks(open_engine(f"redis://127.0.0.1:{port}")[0], Settings("t"))
        began = time.monotonic()
        with pytest.raises(BackendUnavailable):
            await locks.ping(timeout=60)
        assert time.monotonic() - began < 30, "a ping tells what is so now"
        await locks.close()

    paint.run(told())
    ports.close()


@pytest.mark.redis
def test_a_ping_that_is_cancelled_leaves_nothing() -> None:
    async def told() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            await locks.ping(timeout=60)
            server.stop()
            try:
                asking = asyncio.ensure_future(locks.ping(timeout=60))
                await asyncio.sleep(0)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            finally:
                server.cont()

    with RedisServer() as server:
        asyncio.run(told())
        eventually(lambda: not left_behind(server), "something was left behind")
