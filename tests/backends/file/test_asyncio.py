"""Tasks that wait: woken by the loop, cancelled at once, and nothing left behind."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from locknut.backends.file.engine import FileEngine
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    Child,
    acquire,
    claim,
    engine_in,
    granted,
    open_descriptors,
    reader,
    release,
    run,
    signal,
    take,
)

Start = Callable[[], Child]
DEADLINE = 30.0


async def _waiting(
    work: Callable[[Callable[[], None]], Coroutine[Any, Any, Any]],
) -> asyncio.Task[Any]:
    """A task that stands in line by now."""
    waits = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(work(lambda: waits.set_result(None)))
    await asyncio.wait({task, waits}, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
    assert waits.done(), task  # or it says what went wrong
    return task


def test_a_cancelled_waiter_leaves_nothing(engine: FileEngine) -> None:
    backend, held = engine.asyncio(LoopRuntime()), claim()
    take(engine.blocking(ThreadRuntime()), held)
    threads = set(threading.enumerate())

    async def main() -> None:
        settled = open_descriptors()
        wanted = [claim() for _ in range(20)]
        tasks = [
            await _waiting(lambda told, one=one: acquire(backend, one, on_wait=told))  # type: ignore[misc]
            for one in wanted
        ]
        assert not set(threading.enumerate()) - threads
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in wanted:
            assert not await backend.release(one)
        await backend.close()
        assert open_descriptors() <= settled
        assert (await backend.inspect("ns:a"))[0].waiters == ()

    asyncio.run(main())
    assert release(engine.blocking(ThreadRuntime()), held)


def test_more_rings_in_one_turn_than_a_socket_has_room_for_all_arrive(
    engine: FileEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unread rings fill the ringer's buffer: a fresh socket is used. The buffer is made small, for
    some 60 rings, so that the descriptors of an ordinary user (1024) are enough, of which other
    tests' servers have some.
    """
    monkeypatch.setattr("locknut.backends.file.line._FIRST", (3600.0,) * 3)
    monkeypatch.setattr("locknut.backends.file.bells._MANY", 40)
    backend, blocking = engine.asyncio(LoopRuntime()), engine.blocking(ThreadRuntime())
    small = blocking._recipe.ringer._open()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 25_000)  # Linux doubles it
    held = [claim(f"ns:{name}") for name in range(110)]
    for one in held:
        take(blocking, one)

    async def main() -> None:
        wanted = [claim(one.key) for one in held]
        tasks = [
            await _waiting(lambda told, one=one: acquire(backend, one, 3600.0, told))  # type: ignore[misc]
            for one in wanted
        ]
        for one in held:
            release(blocking, one)
        assert blocking._recipe.ringer._socket is not small
        raws = await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE)
        assert all(raws)
        for one in wanted:
            assert await backend.release(one)

    asyncio.run(main())


def test_a_ring_comes_without_the_net(
    engine: FileEngine, child: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.backends.file.line._FIRST", (3600.0,) * 3)
    other, wanted, again = child(), claim(), claim()
    other.ask("attempt")

    async def main() -> None:
        backend = engine.asyncio(LoopRuntime())
        assert await acquire(backend, wanted, on_wait=lambda: other.send("release"))
        assert other.hear()
        await backend.release(wanted)
        other.ask("attempt")
        assert await acquire(backend, again, on_wait=other.kill)

    asyncio.run(main())


def test_anybody_may_ring_from_another_thread(engine: FileEngine) -> None:
    held, wanted = claim(), claim()
    take(engine.blocking(ThreadRuntime()), held)

    async def main() -> None:
        backend = engine.asyncio(LoopRuntime())
        with backend.watch(wanted, signal) as bell:
            bell.notify()  # before it hangs: rung as soon as it does
            await backend.attempt(wanted, 0.0)
            assert await bell.wait(1e12)
            thread = threading.Thread(target=bell.notify)
            thread.start()
            assert await bell.wait(1e12)
            thread.join()
            assert not await bell.wait(0.0)
        await backend.release(wanted)

    asyncio.run(main())


def test_a_thread_may_be_rung_too(engine: FileEngine) -> None:
    held, wanted, backend = claim(), claim(), engine.blocking(ThreadRuntime())
    take(backend, held)
    with backend.watch(wanted, signal) as bell:
        bell.notify()
        run(backend.attempt(wanted, 0.0))
        assert run(bell.wait(1e12))
        threading.Thread(target=bell.notify).start()
        assert run(bell.wait(1e12))
        assert not run(bell.wait(0.0))
    release(backend, wanted)


def test_what_a_task_took_is_released_by_a_thread(engine: FileEngine) -> None:
    """The keeper's thread renews and releases for the loop; the bell is put away there."""
    held, wanted = claim(), claim()
    take(engine.blocking(ThreadRuntime()), held)
    before = open_descriptors()

    async def main() -> None:
        backend = engine.asyncio(LoopRuntime())
        task = await _waiting(lambda told: acquire(backend, wanted, on_wait=told))
        release(engine.blocking(ThreadRuntime()), held)
        assert await task
        thread = threading.Thread(target=lambda: release(engine.blocking(ThreadRuntime()), wanted))
        thread.start()
        thread.join()

    asyncio.run(main())
    run(engine.blocking(ThreadRuntime()).close())
    assert open_descriptors() <= before


def test_tasks_take_turns(directory: Path) -> None:
    """Readers and writers of two engines in one loop: never a writer beside anybody."""
    readers, writers, worst = 0, 0, 0

    async def read(engine: FileEngine) -> None:
        nonlocal readers, worst
        backend = engine.asyncio(LoopRuntime())
        for _ in range(20):
            held = reader()
            assert await acquire(backend, held)
            readers += 1
            worst = max(worst, writers)
            await asyncio.sleep(0)
            readers -= 1
            await backend.release(held)

    async def write(engine: FileEngine) -> None:
        nonlocal writers, worst
        backend = engine.asyncio(LoopRuntime())
        for _ in range(20):
            held = claim()
            assert await acquire(backend, held)
            writers += 1
            worst = max(worst, writers - 1, readers)
            await asyncio.sleep(0)
            writers -= 1
            await backend.release(held)

    async def main() -> None:
        engines = [engine_in(directory), engine_in(directory)]
        work = [kind(engine) for engine in engines for kind in (read, write, read, write)]
        await asyncio.wait_for(asyncio.gather(*work), DEADLINE)

    asyncio.run(main())
    assert worst == 0


def test_an_asyncio_attempt_never_suspends(engine: FileEngine) -> None:
    assert granted(run(engine.asyncio(LoopRuntime()).attempt(claim(), 0.0)))
