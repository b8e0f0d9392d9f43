"""Code of others that runs inside ours: finalizers and signal handlers, on the same thread."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.runtimes.threads import Guard
from tests.api.crowd import PATIENCE, Started, in_thread
from tests.servers.redis import RedisServer

ROUNDS = 1.5
"""Seconds that the races are given; whoever hangs does it well before, most of the time."""


class Visited(Guard):  # type: ignore[misc]  # final in typeshed alone
    """A guard inside which somebody else's code runs, once."""

    def __init__(self) -> None:
        self.visitor: Callable[[], None] | None = None

    def __enter__(self) -> bool:  # type: ignore[override]  # typeshed has acquire's
        entered = self.acquire()
        visitor, self.visitor = self.visitor, None
        if visitor is not None:
            try:
                visitor()
            except BaseException:
                self.release()
                raise
        return entered


@pytest.fixture(params=["guard", "engine"])
def visited(locks: locknut.Locks, request: pytest.FixtureRequest) -> Visited:
    """Where the visitor runs: inside the client's own mutex, or inside the engine's."""
    made = Visited()
    client: Any = locks._client
    if request.param == "guard":
        client.guard, client.in_guard = made, made.inside
    else:
        client.backend._engine.mutex = made
        client.in_engine = client.backend.inside = made.inside
    return made


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    faulthandler.dump_traceback_later(4 * PATIENCE, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def free_again(locks: locknut.Locks, name: str) -> bool:
    return bool(in_thread(lambda: locks.lock(name).acquire(timeout=PATIENCE)))


def test_a_release_is_done_by_the_keeper(locks: locknut.Locks, visited: Visited) -> None:
    lease = locks.lock("a").acquire()
    assert lease is not None
    visited.visitor = lease.release
    with locks.lock("b"):
        pass
    assert visited.visitor is None
    assert free_again(locks, "a")
    assert not lease.held


def test_a_release_of_the_very_same_lease(locks: locknut.Locks, visited: Visited) -> None:
    lease = locks.lock("a").acquire()
    assert lease is not None

    def visit() -> None:
        with suppress(locknut.NotHeld):  # inside the engine it is known already
            lease.release()

    visited.visitor = visit
    lease.release()
    assert visited.visitor is None
    assert free_again(locks, "a")


def test_one_of_several_entries(locks: locknut.Locks, visited: Visited) -> None:
    lock = locks.lock("a")
    done = threading.Event()
    with lock as lease, lock:
        visited.visitor = lock.release
        with locks.lock("b"):
            pass
        locks._client.later(lambda _: _tell(done))
        assert done.wait(PATIENCE)
        assert lease.held
        assert lease._count == 1
        lease._count += 1  # so that both `with` have something to leave
    assert free_again(locks, "a")


async def _tell(event: threading.Event) -> None:
    event.set()


def test_the_next_of_this_process_gets_it(locks: locknut.Locks, visited: Visited) -> None:
    waiting = threading.Event()
    locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
    lease = locks.lock("a").acquire()
    assert lease is not None
    waiter = Started(lambda: bool(locks.lock("a").acquire(timeout=PATIENCE)))
    assert waiting.wait(PATIENCE)
    visited.visitor = lease.release
    with locks.lock("b"):
        pass
    assert waiter.result()


def test_a_write_that_ends_with_a_read_inside(locks: locknut.Locks, visited: Visited) -> None:
    rw = locks.rwlock("a")
    write, read = rw.write().acquire(), rw.read().acquire()
    assert write is not None
    assert read is not None
    visited.visitor = write.release
    with locks.lock("b"):
        pass
    assert in_thread(lambda: locks.rwlock("a").read().acquire(timeout=PATIENCE)) is not None
    assert read.held
    read.release()


def test_several_at_once(locks: locknut.Locks, visited: Visited) -> None:
    leases = locks.all("a", "c").acquire()
    assert leases is not None
    visited.visitor = leases.release
    with locks.lock("b"):
        pass
    assert free_again(locks, "a")
    assert free_again(locks, "c")


def test_what_is_over_cannot_be_released(locks: locknut.Locks, visited: Visited) -> None:
    lease = locks.lock("a").acquire()
    assert lease is not None
    lease.release()

    def visit() -> None:
        with pytest.raises(locknut.NotHeld):
            lease.release()
        told.append(True)

    told: list[bool] = []
    visited.visitor = visit
    with locks.lock("b"):
        pass
    assert told == [True]


@pytest.mark.parametrize("use", ["acquire", "try", "with", "all", "renew", "detach", "wait"])
def test_what_would_wait_for_itself_is_refused(
    locks: locknut.Locks, visited: Visited, use: str
) -> None:
    lease = locks.lock("a", ttl=30).acquire()
    assert lease is not None
    uses: dict[str, Callable[[], object]] = {
        "acquire": locks.lock("h").acquire,
        "try": lambda: locks.lock("h").acquire(blocking=False),
        "with": lambda: locks.lock("a").__enter__(),
        "all": lambda: locks.all("h", "i").acquire(),
        "renew": lease.renew,
        "detach": lease.detach,
        "wait": lambda: lease.lost.wait(PATIENCE),
    }
    told: list[str] = []

    def visit() -> None:
        try:
            uses[use]()
        except locknut.DeadlockDetected as error:
            told.append(str(error))

    visited.visitor = visit
    with locks.lock("b"):
        pass
    assert len(told) == 1
    assert "signal handler" in told[0]
    assert lease.held
    lease.release()
    with locks.lock("h", timeout=0):  # nothing of it was left behind
        pass


def test_looking_is_allowed(locks: locknut.Locks, visited: Visited) -> None:
    held = locks.lock("a").acquire()
    short = locks.lock("s", ttl=0.02, auto_renew=False).acquire()
    assert held is not None
    assert short is not None
    seen: list[Any] = []

    def visit() -> None:
        time.sleep(0.05)  # inside the guard: the keeper cannot end it meanwhile
        seen.extend((held.held, held.state, short.held, short.state, short.remaining))
        with pytest.raises(locknut.LeaseLost):
            short.check()
        held.on_lost(lambda _: None)
        repr(locks.lock("a"))

    visited.visitor = visit
    with locks.lock("b"):
        pass
    assert seen == [True, "held", False, "lost", 0.0]
    held.release()
    with pytest.raises(locknut.LeaseLost):
        short.release()


def test_closing(locks: locknut.Locks, visited: Visited, url: str) -> None:
    lease = locks.lock("a").acquire()
    assert lease is not None
    visited.visitor = locks.close
    with suppress(locknut.ConfigurationError, locknut.NotHeld), locks.lock("b"):
        pass
    with pytest.raises(locknut.ConfigurationError, match="closed"):
        locks.lock("c").acquire()
    with locknut.connect(url) as others:
        assert others.lock("a").acquire(timeout=PATIENCE) is not None
        assert others.lock("b").acquire(timeout=PATIENCE) is not None
    assert not lease.held


def test_on_a_loop_looking_is_allowed(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            client: Any = locks._client
            made = Visited()
            client.guard, client.in_guard = made, made.inside
            short = await locks.lock("s", ttl=0.02, auto_renew=False).acquire()
            assert short is not None
            seen: list[Any] = []

            def visit() -> None:
                time.sleep(0.05)  # a finalizer that takes long
                seen.extend((short.held, short.state))
                short.on_lost(seen.append)

            made.visitor = visit
            async with locks.lock("b"):
                pass
            assert seen == [False, "lost"]
            assert await short.lost.wait(PATIENCE)
            await asyncio.sleep(0)

    asyncio.run(main())


def test_on_a_loop_a_thread_s_lease_is_released(url: str) -> None:
    """Blocking code in a finalizer, on the thread of a loop that is inside the same engine."""

    async def main() -> None:
        with locknut.connect(url) as blocking:
            lease = blocking.lock("a").acquire()
            assert lease is not None
            async with aio.connect(url) as locks:
                made = Visited()
                backends: list[Any] = [locks._client.backend, blocking._client.backend]
                backends[0]._engine.mutex = made
                for each in backends:
                    each.inside = made.inside
                blocking._client.in_engine = locks._client.in_engine = made.inside
                made.visitor = lease.release
                async with locks.lock("b"):
                    pass
                async with locks.lock("a", timeout=PATIENCE):
                    pass

    asyncio.run(main())


@pytest.mark.redis
def test_on_a_loop_a_write_that_ends_with_a_read_inside(redis_server: RedisServer) -> None:
    """As an eager task of a finalizer does it: the keeper cannot use the loop's connections."""

    async def main() -> None:
        asked_on: set[int] = set()
        url = f"{redis_server.url}?namespace=inside"
        async with aio.connect(url) as locks, aio.connect(url) as others:
            client = locks._client
            write = await locks.rwlock("a").write().acquire()
            read = await locks.rwlock("a").read().acquire()
            assert write is not None
            assert read is not None
            backend: Any = client.backend
            real = backend.downgrade

            async def downgrade(claim: Any) -> bool:
                asked_on.add(threading.get_ident())
                return bool(await real(claim))

            backend.downgrade = downgrade
            with client.guard, pytest.raises(StopIteration):
                write.release().send(None)
            another = await others.rwlock("a").read().acquire(timeout=PATIENCE)
            assert another is not None
            assert read.held
            assert asked_on <= {threading.get_ident()}
            await another.release()
            await read.release()
            assert await others.lock("a").acquire(timeout=PATIENCE)

    asyncio.run(main())


class Resource:
    """Somebody's object that has a lock, and gives it back when it is collected."""

    def __init__(self, lease: locknut.Lease):
        self.lease = lease
        self.itself = self

    def __del__(self) -> None:
        self.lease.release()


@pytest.mark.parametrize("engine", ["memory", "file"])
def test_finalizers_that_release(url: str, engine: str, tmp_path: Any) -> None:
    before = gc.get_threshold()
    stop = time.monotonic() + ROUNDS
    with locknut.connect(url if engine == "memory" else f"file://{tmp_path}") as locks:

        def work(number: int) -> int:
            rounds = 0
            while time.monotonic() < stop:
                lease = locks.lock(f"r{number}-{rounds}").acquire()
                assert lease is not None
                Resource(lease)
                with locks.lock("x", timeout=PATIENCE):
                    rounds += 1
            return rounds

        gc.set_threshold(20)
        try:
            workers = [Started(work, number) for number in range(2)]
            assert all(worker.result() > 10 for worker in workers)
        finally:
            gc.set_threshold(*before)
        gc.collect()
        assert free_again(locks, "x")
        assert free_again(locks, "r0-0")


@pytest.mark.parametrize("engine", ["memory", "file"])
def test_a_finalizer_that_releases_what_was_abandoned_with_it(
    url: str, engine: str, tmp_path: Any
) -> None:
    """The collector calls the finalizer of the lease first: the hold is on its way back.

    In a process of its own: what the collector finds depends on what earlier tests left behind, and
    after some of them CPython 3.13 does not find this one.
    """
    if "LOCKNUT_ALONE" not in os.environ:
        name = f"{__file__}::test_a_finalizer_that_releases_what_was_abandoned_with_it[{engine}]"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
        environment = {**os.environ, "LOCKNUT_ALONE": "1"}
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout
        return
    errors: list[BaseException] = []
    with locknut.connect(url if engine == "memory" else f"file://{tmp_path}") as locks:

        class Late(Resource):
            def __del__(self) -> None:
                try:
                    assert free_again(locks, "r")
                    self.lease.release()
                except BaseException as error:  # noqa: BLE001  # the collector would swallow it
                    errors.append(error)

        def work() -> None:
            lease = locks.lock("r").acquire()
            assert lease is not None
            Late(lease)

        gc.disable()  # on the keeper's thread this finalizer would wait for itself
        try:
            Started(work).result()
            gc.collect()
        finally:
            gc.enable()
        assert free_again(locks, "r")
    assert not errors


@contextmanager
def interrupted(handler: Callable[[], None]) -> Iterator[None]:
    """Every millisecond and less, never by itself again before it has returned."""
    ended = False

    def handle(number: int, frame: FrameType | None) -> None:
        handler()
        if not ended:
            signal.setitimer(signal.ITIMER_REAL, 0.0007)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0007)
    try:
        yield
    finally:
        ended = True  # or the last one begins another, which then ends the process
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("engine", ["memory", "file"])
@pytest.mark.parametrize("use", ["release", "with"])
def test_signal_handlers(url: str, engine: str, tmp_path: Any, use: str) -> None:
    with locknut.connect(url if engine == "memory" else f"file://{tmp_path}") as locks:
        stop = time.monotonic() + ROUNDS
        held = [locks.lock("h").acquire()]
        handled = [0]

        def release() -> None:
            while held:
                lease = held.pop()
                assert lease is not None
                lease.release()
            handled[0] += 1

        def enter() -> None:
            try:
                with locks.lock("h2", timeout=PATIENCE):
                    pass
            except locknut.DeadlockDetected:
                pass
            handled[0] += 1

        def contend() -> int:
            rounds = 0
            while time.monotonic() < stop:
                with locks.lock("x", timeout=PATIENCE):
                    rounds += 1
            return rounds

        other = Started(contend)
        with interrupted(release if use == "release" else enter):
            rounds = 0
            while time.monotonic() < stop:
                with locks.lock("x", timeout=PATIENCE):
                    rounds += 1
                if not held and use == "release":
                    held.append(locks.lock(f"h{rounds}").acquire())
        assert rounds > 10
        assert handled[0] > 10
        assert other.result() > 0
        release()
        for name in ("x", "h", "h2"):
            assert free_again(locks, name)
