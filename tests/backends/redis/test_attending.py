"""Many claims of one client in one line: one question a second for all, and none is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import locknut
from locknut import aio
from tests.backends.redis.conftest import PATIENCE, eventually
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
MANY = 300
WATCHED = 3.0
"""Seconds for which nothing happens: each waiter alone would ask three times."""
WINDOWS = 6
"""How often to watch. Those who came last ask once more, and so do all whose answer is late when
the machine stands still, each on a connection of its own: but not again and again."""
MAKE: dict[str, Callable[[aio.Locks], Any]] = {
    "fair": lambda locks: locks.lock("x", fair=True, ttl=20),
    "read": lambda locks: locks.rwlock("x", ttl=20).read(),
    "permit": lambda locks: locks.semaphore("x", 1, ttl=20),
}


async def lined(server: RedisServer, count: int) -> None:
    """Until so many stand in line."""
    async with asyncio.timeout(PATIENCE):
        while in_line(server) != count:  # noqa: ASYNC110  # the server has no event for it
            await asyncio.sleep(0.01)


def in_line(server: RedisServer) -> int:
    counts = [server.ask("ZCARD", f"t:{{x}}{part}:line") for part in ("", ":permits")]
    return sum(count for count in counts if isinstance(count, int))


def waited_for(
    server: RedisServer,
    kind: str,
    story: Callable[[list[int]], Awaitable[object]],
    count: int = MANY,
) -> list[int]:
    """Whom the lock went to, in order, when so many tasks wait and then `story` has happened."""
    served: list[int] = []

    async def take(locks: aio.Locks, number: int) -> None:
        async with MAKE[kind](locks):
            served.append(number)

    async def play() -> None:
        async with aio.connect(server.url, namespace="t") as locks, locks_of(server) as others:
            holder = others.semaphore("x", 1) if kind == "permit" else others.lock("x")
            held = await holder.acquire()
            assert held is not None
            await locks.info("x")  # connected: from here on they ask in the order of their start
            tasks = []
            for number in range(count):
                tasks.append(asyncio.create_task(take(locks, number)))
                await asyncio.sleep(0)
            await lined(server, count)
            await story(served)
            await held.release()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*tasks)

    asyncio.run(play())
    return served


def locks_of(server: RedisServer) -> aio.Locks:
    return aio.connect(server.url, namespace="t")


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.slow
def test_many_tasks_ask_once_a_second_for_all(server: RedisServer, kind: str) -> None:
    asked: list[int] = []

    async def story(_: list[int]) -> None:
        while len(asked) < WINDOWS and min(asked, default=MANY) > 10:
            before = server.scripts_run()
            await asyncio.sleep(WATCHED)
            asked.append(server.scripts_run() - before)

    served = waited_for(server, kind, story)
    assert min(asked) <= 10, f"somebody asked for itself alone: {asked}"
    assert sorted(served) == list(range(MANY))
    if kind == "fair":
        assert served == list(range(MANY))


@pytest.mark.slow
def test_many_threads_ask_once_a_second_for_all(server: RedisServer) -> None:
    served: list[int] = []
    count = 40

    def take(locks: locknut.Locks, number: int) -> None:
        with locks.lock("x", fair=True, ttl=20):
            served.append(number)

    with (
        locknut.connect(server.url, namespace="t") as locks,
        locknut.connect(server.url, namespace="t") as others,
    ):
        held = others.lock("x").acquire()
        assert held is not None
        threads = [threading.Thread(target=take, args=(locks, number)) for number in range(count)]
        for number, thread in enumerate(threads):
            thread.start()
            eventually(lambda number=number: in_line(server) > number, "it does not wait")  # type: ignore[misc]
        seen = [asked_and_connected(server)]
        for _ in range(WINDOWS):
            time.sleep(WATCHED)
            seen.append(asked_and_connected(server))
            asked, connected = (now - then for now, then in zip(seen[-1], seen[-2], strict=True))
            if asked <= 15 and connected <= 5:
                break
        else:
            pytest.fail(f"each asks for itself, or waiting opens connections: {seen}")
        held.release()
        for thread in threads:
            thread.join(PATIENCE)
    assert served == list(range(count))


def asked_and_connected(server: RedisServer) -> tuple[int, int]:
    """How many scripts were run, and how many connections opened, this one's own included."""
    return server.scripts_run(), int(server.info("stats")["total_connections_received"])


@pytest.mark.parametrize("lost", ["everything", "line", "info", "alive"])
def test_a_line_that_was_lost_is_noticed_for_all(server: RedisServer, lost: str) -> None:
    async def story(_: list[int]) -> None:
        names = ["alive", "line", "info"] if lost == "everything" else [lost]
        for name in names:
            server.ask("DEL", f"t:{{x}}:{name}")
        if lost != "alive":
            await lined(server, 20)

    served = waited_for(server, "fair", story, 20)
    assert sorted(served) == list(range(20))


def test_connections_that_are_cut_cost_no_place(server: RedisServer) -> None:
    async def story(_: list[int]) -> None:
        server.client_kill()
        before = server.scripts_run()
        async with asyncio.timeout(PATIENCE):
            while server.scripts_run() < before + 20:  # noqa: ASYNC110  # each asks for itself then
                await asyncio.sleep(0.01)

    assert waited_for(server, "fair", story, 20) == list(range(20))


@pytest.mark.slow
def test_whoever_asks_for_all_may_give_up(server: RedisServer) -> None:
    """The next one asks from then on; without it they would all be taken for dead."""

    async def play() -> None:
        async with locks_of(server) as locks, locks_of(server) as others:
            held = await others.lock("x").acquire()
            assert held is not None
            first = asyncio.create_task(locks.lock("x", fair=True).acquire())
            await lined(server, 1)
            second = asyncio.create_task(locks.lock("x", fair=True).acquire())
            await lined(server, 2)
            await asyncio.sleep(1.2)
            first.cancel()
            await lined(server, 1)
            await asyncio.sleep(4.0)  # longer than a silent client counts as alive
            assert (await others.info("x")).waiters
            await held.release()
            async with asyncio.timeout(PATIENCE):
                lease = await second
            assert lease is not None
            await lease.release()

    asyncio.run(play())


def test_nobody_is_overtaken_while_the_connection_is_made(server: RedisServer) -> None:
    """They come one by one, before it is there, in the very moment, and afterwards."""
    served: list[int] = []

    async def story() -> None:
        async with locks_of(server) as locks, locks_of(server) as others:
            held = await others.lock("x", ttl=20).acquire()
            assert held is not None
            link: Any = locks._client.backend._server.link  # type: ignore[attr-defined]

            async def take(number: int) -> None:
                async with locks.lock("x", fair=True, ttl=20):
                    served.append(number)

            tasks: list[asyncio.Task[None]] = []
            later = 0
            while later < 20:
                tasks += [asyncio.create_task(take(len(tasks) + each)) for each in range(3)]
                await asyncio.sleep(0)
                later += link.stream is not None
            await lined(server, len(tasks))
            await held.release()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*tasks)
            assert served == list(range(len(tasks)))

    asyncio.run(story())
