"""A server that hangs (SIGSTOP): whoever asks returns in time, and what was asked for is undone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.errors import AcquireTimeout, BackendUnavailable
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.redis.conftest import eventually, left_behind, somebody_waits
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
LATE = 0.3
"""How late a caller may return, at most; and a busy machine's share."""
BUSY = 0.4


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Left with nothing but fences and tombstones, whatever was asked of it while it hung."""
    with RedisServer() as server:
        yield server
        server.cont()
        eventually(lambda: not left_behind(server), "something was left behind")


class Blocking:
    """Whoever asks, in a thread."""

    def __init__(self, server: RedisServer, *, warm: bool):
        self.server, self.warm = server, warm

    def took(self, ask: Callable[[locknut.Locks], object]) -> float:
        """How long it takes while the server hangs."""
        with locknut.connect(self.server.url, namespace="t") as locks:
            if self.warm:
                with locks.lock("warm"):
                    pass
            self.server.stop()
            began = time.monotonic()
            with suppress(BackendUnavailable, AcquireTimeout):
                assert ask(locks) is None
            took = time.monotonic() - began
            self.server.cont()
            with locks.lock("x", timeout=20):  # and nothing is in the way
                pass
        return took


class Looping(Blocking):
    """The same in a task."""

    def took_on_loop(self, ask: Callable[[aio.Locks], Awaitable[object]]) -> float:
        async def story() -> float:
            async with aio.connect(self.server.url, namespace="t") as locks:
                if self.warm:
                    async with locks.lock("warm"):
                        pass
                self.server.stop()
                began = time.monotonic()
                with suppress(BackendUnavailable, TimeoutError):
                    assert await ask(locks) is None
                took = time.monotonic() - began
                self.server.cont()
                async with locks.lock("x", timeout=20):
                    pass
            return took

        return asyncio.run(story())


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("timeout", [0.05, 0.2, 1.2])
def test_a_timeout_is_kept(server: RedisServer, timeout: float, warm: bool) -> None:
    took = Blocking(server, warm=warm).took(lambda locks: locks.lock("x").acquire(timeout=timeout))
    assert timeout <= took < timeout + LATE + BUSY


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("timeout", [0.05, 0.2, 1.2])
def test_a_timeout_is_kept_on_a_loop(server: RedisServer, timeout: float, warm: bool) -> None:
    took = Looping(server, warm=warm).took_on_loop(
        lambda locks: locks.lock("x").acquire(timeout=timeout)
    )
    assert timeout <= took < timeout + LATE + BUSY


@pytest.mark.parametrize("warm", [True, False])
def test_a_try_is_over_within_a_second(server: RedisServer, warm: bool) -> None:
    took = Blocking(server, warm=warm).took(lambda locks: locks.lock("x").acquire(blocking=False))
    assert took < 1 + BUSY
    took = Looping(server, warm=warm).took_on_loop(lambda locks: locks.lock("x").acquire(False))
    assert took < 1 + BUSY


@pytest.mark.parametrize("colour", list(COLOURS))
def test_who_comes_behind_a_try_without_an_answer_is_told_so_too(
    server: RedisServer, colour: str
) -> None:
    """What it left is finished behind it: nobody knows yet whether the lock is held."""
    paint = COLOURS[colour]()

    async def story() -> None:
        locks: Any = paint.locks(open_engine(server.url)[0], Settings("t"))
        async with locks.lock("warm"):
            pass
        server.stop()
        for ask in ({"blocking": False}, {"timeout": 0.2}, {"blocking": False}):
            began = time.monotonic()
            with pytest.raises(BackendUnavailable):
                await locks.lock("x").acquire(**ask)
            assert time.monotonic() - began < ask.get("timeout", 0.8) + LATE + BUSY
        server.cont()
        async with locks.lock("x", timeout=20):
            pass
        await locks.close()

    paint.run(story())


def test_several_at_once(server: RedisServer) -> None:
    took = Blocking(server, warm=True).took(lambda locks: locks.all("x", "y").acquire(timeout=0.2))
    assert took < 0.2 + LATE + BUSY
    took = Looping(server, warm=True).took_on_loop(
        lambda locks: locks.all("x", "y").acquire(timeout=0.2)
    )
    assert took < 0.2 + LATE + BUSY


async def _in_time(locks: aio.Locks) -> None:
    async with asyncio.timeout(0.2):
        await locks.lock("x").acquire()


async def _waited_for(locks: aio.Locks) -> None:
    await asyncio.wait_for(locks.lock("x").acquire(), 0.2)


async def _in_a_with(locks: aio.Locks) -> None:
    async with asyncio.timeout(0.2), locks.lock("x"):
        pass


@pytest.mark.parametrize("ask", [_in_time, _waited_for, _in_a_with])
def test_a_timeout_around_it_is_kept(
    server: RedisServer, ask: Callable[[aio.Locks], Awaitable[None]]
) -> None:
    assert Looping(server, warm=True).took_on_loop(ask) < 0.2 + LATE + BUSY


@pytest.mark.parametrize("how", ["fair", "plain"])
@pytest.mark.slow
def test_it_hangs_while_somebody_waits(server: RedisServer, how: str) -> None:
    """Somebody holds it, the server hangs a moment later: who waits returns at its time."""
    took: list[float] = []

    def wait() -> None:
        with locknut.connect(server.url, namespace="t") as locks:
            began = time.monotonic()
            with suppress(BackendUnavailable):
                assert locks.lock("x", fair=how == "fair").acquire(timeout=1.5) is None
            took.append(time.monotonic() - began)

    with locknut.connect(server.url, namespace="t") as locks, locks.lock("x"):
        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: locks.info("x").waiters, "nobody waits")
        server.stop()
        waiter.join(20)
        server.cont()
    assert took
    assert took[0] < 1.5 + LATE + BUSY


@pytest.mark.slow
def test_what_is_told_says_whether_the_lock_is_known_to_be_held(server: RedisServer) -> None:
    """Nobody who stood in line is told that the server is to blame; who heard nothing is."""
    told: list[object] = []
    refused = threading.Event()

    def wait() -> None:
        with locknut.connect(server.url, namespace="t") as locks:
            locks.on_event(lambda event: refused.set() if event.kind == "waiting" else None)
            told.append(locks.lock("x").acquire(timeout=2))

    with locknut.connect(server.url, namespace="t") as locks, locks.lock("x"):
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert refused.wait(20)  # it has heard that somebody holds it
        eventually(lambda: locks.info("x").waiters, "nobody waits")
        server.stop()
        with pytest.raises(BackendUnavailable):
            locks.lock("y").acquire(timeout=0.1)
        waiter.join(20)
        server.cont()
    assert told == [None]


@pytest.mark.parametrize("layout", ["redisson", "redis-py"])
@pytest.mark.parametrize("lost", [False, True], ids=["listening", "cut off"])
def test_it_hangs_while_somebody_waits_in_a_foreign_layout(layout: str, lost: bool) -> None:
    """Also where it has to connect again, and listens no more: nothing of that costs its time."""
    took: list[float] = []
    with RedisServer() as server:
        url = f"{server.url}?layout={layout}"

        def wait() -> None:
            with locknut.connect(url) as locks:
                began = time.monotonic()
                with suppress(BackendUnavailable):
                    assert locks.lock("x").acquire(timeout=1.5) is None
                took.append(time.monotonic() - began)

        with locknut.connect(url) as locks, locks.lock("x"):
            waiter = threading.Thread(target=wait)
            waiter.start()
            eventually(lambda: b"sub=1" in server.ask("CLIENT", "LIST"), "nobody listens")  # type: ignore[operator]
            if lost:
                server.client_kill()
            server.stop()
            waiter.join(20)
            server.cont()
    assert took
    assert took[0] < 1.5 + LATE + BUSY


def test_it_hangs_while_a_task_waits(server: RedisServer) -> None:
    async def story() -> float:
        first, second = (aio.connect(server.url, namespace="t") for _ in range(2))
        async with first as locks, second as others, locks.lock("x"):
            began = time.monotonic()
            waiter = asyncio.ensure_future(others.lock("x").acquire(timeout=1.5))
            await somebody_waits(locks)
            server.stop()
            assert await waiter is None, "it is known to be held"
            took = time.monotonic() - began
            server.cont()
        return took

    assert asyncio.run(story()) < 1.5 + LATE + BUSY


UNCLOSED = """
import asyncio, os, signal, sys, time
from locknut import aio
from locknut.errors import BackendUnavailable

async def story():
    locks = aio.connect(sys.argv[1], namespace="t")
    async with locks.lock("warm"):
        pass
    os.kill(int(sys.argv[2]), signal.SIGSTOP)
    try:
        await locks.lock("x", ttl=2).acquire(timeout=0.1)
    except BackendUnavailable:
        print("unavailable")

began = time.monotonic()
asyncio.run(story())
print(time.monotonic() - began)
os.kill(int(sys.argv[2]), signal.SIGCONT)
"""


def test_what_was_left_behind_ends_with_the_loop(server: RedisServer) -> None:
    """Nothing holds the end of the loop up, nor complains of a task that was destroyed."""
    url = f"{server.url}?socket_timeout=20"  # what a busy machine takes is much less
    command = [sys.executable, "-c", UNCLOSED, url, str(server.process.pid)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    told, took = ended.stdout.split()
    assert told == "unavailable"
    assert float(took) < 10
    assert "Task" not in ended.stderr


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("count", [8, 1000])
def test_closing_takes_three_seconds_however_much_is_held(end: str, count: int) -> None:
    with RedisServer() as server:
        locks = locknut.connect(server.url, namespace="t")
        leases = [locks.lock(f"n{i}", ttl=60).acquire() for i in range(count)]
        getattr(server, end)()
        began = time.monotonic()
        locks.close()
        assert time.monotonic() - began < 3 + BUSY
        assert not any(lease is not None and lease.held for lease in leases)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_closing_on_a_loop_takes_three_seconds(end: str) -> None:
    async def story(server: RedisServer) -> float:
        locks = aio.connect(server.url, namespace="t")
        leases = [await locks.lock(f"n{i}", ttl=60).acquire() for i in range(1000)]
        getattr(server, end)()
        began = time.monotonic()
        await locks.close()
        took = time.monotonic() - began
        assert not any(lease is not None and lease.held for lease in leases)
        return took

    with RedisServer() as server:
        assert asyncio.run(story(server)) < 3 + BUSY


def test_what_closing_could_not_give_back_is_given_back_behind(server: RedisServer) -> None:
    """The server answers again before a command of the keeper is given up."""
    locks = locknut.connect(server.url, namespace="t")
    leases = [locks.lock(f"n{i}", ttl=600).acquire() for i in range(20)]
    server.stop()
    locks.close()
    server.cont()
    eventually(lambda: not left_behind(server), "they were not given back")
    assert len(leases) == 20


def test_closing_gives_back_in_few_round_trips(server: RedisServer) -> None:
    locks = locknut.connect(server.url, namespace="t")
    leases = [locks.lock(f"n{i}", ttl=60).acquire() for i in range(1200)]
    locks.close()
    assert len(leases) == 1200
    assert not left_behind(server)


AT_EXIT = """
import sys, locknut
locks = locknut.connect(sys.argv[1], namespace="t")
leases = [locks.lock(f"n{i}", ttl=60).acquire() for i in range(2500)]
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_process_that_ends_takes_three_seconds_however_much_is_held(end: str) -> None:
    with RedisServer() as server:
        command = [sys.executable, "-c", AT_EXIT, server.url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
            assert process.stdout.readline() == "held\n"
            getattr(server, end)()
            began = time.monotonic()
            process.communicate("\n", timeout=60)
            assert time.monotonic() - began < 3 + 2 * BUSY
