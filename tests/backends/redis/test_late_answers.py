"""S1 when answers are late: a pushed grant counts from the sending of the last "not yet"."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from locknut.core.values import Busy, Claim, Granted, Mode
from locknut.runtimes import clock
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.testing.proxy import FaultProxy
from locknut.urls import open_engine
from tests.backends.redis.conftest import PATIENCE, claim, engine, eventually
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
LATE = 0.5
"""Seconds between an answer and its arrival."""


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[FaultProxy]:
    with FaultProxy((server.host, server.port)) as proxy:
        yield proxy


@pytest.fixture
def holder(server: RedisServer) -> Iterator[Claim]:
    """Holds, seen from another client; released by the test."""
    port, mine = engine(server).blocking(ThreadRuntime()), claim()
    assert isinstance(run(port.attempt(mine, 0.0)), Granted)
    yield mine
    run(port.close())


def through(server: RedisServer, proxy: FaultProxy) -> Any:
    return open_engine(server.url_through(proxy.port) + "?socket_timeout=20")[0]


def let_go(server: RedisServer, holder: Claim) -> None:
    port = engine(server).blocking(ThreadRuntime())
    assert run(port.release(holder))
    run(port.close())


def in_line(server: RedisServer) -> bool:
    return bool(server.ask("EXISTS", "t:{x}:line"))


def test_the_first_question(server: RedisServer, proxy: FaultProxy, holder: Claim) -> None:
    port, waiter = through(server, proxy).blocking(ThreadRuntime()), claim()
    run(port.inspect(waiter.key))  # connected
    proxy.replies.delay(LATE)
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    answered = clock.now()
    proxy.heal()
    with port.watch(waiter, ThreadRuntime().signal) as inbox:
        let_go(server, holder)
        assert run(inbox.wait(clock.now() + PATIENCE))
        pushed = run(port.attempt(waiter, 0.0))
    assert answered - pushed.anchor >= LATE
    run(port.release(waiter))
    run(port.close())


def test_a_slice_that_ends_empty(server: RedisServer, proxy: FaultProxy, holder: Claim) -> None:
    port, waiter = through(server, proxy).blocking(ThreadRuntime()), claim()
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    place = port._waiting[waiter.id]
    first = place.anchor
    proxy.replies.delay(LATE)
    with port.watch(waiter, ThreadRuntime().signal) as inbox, ThreadPoolExecutor(1) as pool:
        rung = pool.submit(lambda: run(inbox.wait(clock.now() + PATIENCE)))
        eventually(lambda: place.anchor > first, "no slice came to its end")
        assert clock.now() - place.anchor >= 1.0 + LATE, "the slice lasts for a second"
        let_go(server, holder)
        assert rung.result()
    assert place.pushed.anchor == place.anchor
    proxy.heal()
    run(port.release(waiter))
    run(port.close())


def test_asking_and_falling_asleep(server: RedisServer, proxy: FaultProxy, holder: Claim) -> None:
    port, waiter = through(server, proxy).blocking(ThreadRuntime()), claim()
    run(port.inspect(waiter.key))
    port._crowded.add(waiter.key)
    proxy.replies.delay(LATE)

    def give() -> None:
        eventually(lambda: in_line(server), "it does not stand in line")
        let_go(server, holder)

    giving = threading.Thread(target=give)
    giving.start()
    pushed = run(port.attempt(waiter, PATIENCE))
    answered = clock.now()
    giving.join()
    assert isinstance(pushed, Granted)
    assert pushed.anchor is not None
    assert answered - pushed.anchor >= LATE
    proxy.heal()
    run(port.release(waiter))
    run(port.close())


def test_on_a_loop(server: RedisServer, proxy: FaultProxy, holder: Claim) -> None:
    async def story() -> None:
        port, waiter = through(server, proxy).asyncio(LoopRuntime()), claim()
        await port.inspect(waiter.key)
        proxy.replies.delay(LATE)
        assert isinstance(await port.attempt(waiter, 0.0), Busy)
        answered = clock.now()
        with port.watch(waiter, LoopRuntime().signal) as signal:
            await asyncio.to_thread(let_go, server, holder)
            assert await signal.wait(clock.now() + PATIENCE)
            pushed = await port.attempt(waiter, 0.0)
        assert answered - pushed.anchor >= LATE
        proxy.heal()
        await port.release(waiter)
        await port.close()

    asyncio.run(story())


def test_after_a_wait_that_was_given_up_the_inbox_is_another(
    server: RedisServer, proxy: FaultProxy, holder: Claim
) -> None:
    """L5: the server may still serve the old connection, and so give it the grant."""
    port, waiter = through(server, proxy).blocking(ThreadRuntime()), claim()
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    with port.watch(waiter, ThreadRuntime().signal) as inbox:
        proxy.replies.hold()
        assert not run(inbox.wait(clock.now() + 0.05))
        proxy.replies.release()
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    let_go(server, holder)
    inboxes = server.ask("KEYS", "t:{x}:inbox:*")
    assert inboxes == [f"t:{{x}}:inbox:{waiter.id[:16]}1".encode()]
    run(port.release(waiter))
    run(port.close())
    server.ask("DEL", f"t:{{x}}:inbox:{waiter.id[:16]}1")


@pytest.mark.parametrize(
    "facts",
    [{"mode": Mode.SHARED}, {"mode": Mode.PERMIT, "permits": 2}, {"owner": "ann"}],
    ids=["read", "permit", "owner"],
)
def test_asked_again_alone_in_a_set_has_the_full_ttl(
    server: RedisServer, facts: dict[str, Any]
) -> None:
    """S8: the key of the set must not run out by the time of the first asking."""
    port, mine = engine(server).blocking(ThreadRuntime()), claim(**facts, ttl=30.0)
    first = run(port.attempt(mine, 0.0))
    hold = "t:{x}:permits" if mine.mode is Mode.PERMIT else "t:{x}"
    server.ask("ZADD", hold, "XX", server_ms(server) + 9_000, mine.id)  # as if it was long ago
    server.ask("PEXPIRE", hold, 9_000)
    assert run(port.attempt(mine, 0.0)) == first
    left = server.ask("PTTL", hold)
    assert isinstance(left, int)
    assert left > 20_000
    run(port.release(mine))
    run(port.close())


def server_ms(server: RedisServer) -> int:
    seconds, _ = map(int, server.ask("TIME"))  # type: ignore[arg-type]
    return seconds * 1000
