"""A loop's commands where the machine has no thread left: an error, and later it goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from locknut.drivers.loop_workers import LoopWorkers
from locknut.errors import BackendUnavailable
from tests.backends.mysql.conftest import PATIENCE


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Until this is undone."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    return monkeypatch


def test_without_a_thread_nothing_is_done_then_or_later(no_threads: pytest.MonkeyPatch) -> None:
    workers = LoopWorkers("mysql", 1, 2 * PATIENCE, TimeoutError)
    done: list[str] = []

    async def story() -> None:
        with pytest.raises(BackendUnavailable, match="no thread"):
            await asyncio.wait_for(workers.run(lambda: done.append("first")), PATIENCE)
        no_threads.undo()
        await asyncio.wait_for(workers.run(lambda: done.append("second")), PATIENCE)
        workers.close()

    asyncio.run(story())
    assert done == ["second"]


def test_the_threads_that_there_are_do_it_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = LoopWorkers("mysql", 2, 2 * PATIENCE, TimeoutError)
    go_on = threading.Event()

    def start(_: threading.Thread) -> None:
        go_on.set()
        raise RuntimeError("can't start new thread")

    async def story() -> None:
        loop, busy = asyncio.get_running_loop(), asyncio.Event()

        def first() -> None:
            loop.call_soon_threadsafe(busy.set)
            go_on.wait(PATIENCE)

        one = asyncio.ensure_future(workers.run(first))
        await asyncio.wait_for(busy.wait(), PATIENCE)
        monkeypatch.setattr(threading.Thread, "start", start)
        assert await asyncio.wait_for(workers.run(lambda: "done"), PATIENCE) == "done"
        await one
        workers.close()

    asyncio.run(story())
