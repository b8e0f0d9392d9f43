"""Event loops that are closed while somebody waits there: no ghost, and nobody is held up."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.memory import store
from tests.api.crowd import PATIENCE, Started, collect, in_thread

KINDS: dict[str, Any] = {
    "lock": lambda locks: locks.lock("x"),
    "fair": lambda locks: locks.lock("x", fair=True),
    "permit": lambda locks: locks.semaphore("x", 1),
}


@pytest.fixture(autouse=True)
def _nothing_helps_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "NET", 10 * PATIENCE)
    monkeypatch.setattr(store, "SILENCE", 10 * PATIENCE)


def closed_while_waiting(url: str, kind: str) -> Any:
    """The task that waits on a loop that its thread has closed; the thread is over."""
    kept: list[Any] = []

    def wait() -> None:
        async def main() -> None:
            locks = aio.connect(url)
            asked = asyncio.Event()
            locks.on_event(lambda event: asked.set() if event.kind == "waiting" else None)
            task = asyncio.create_task(KINDS[kind](locks).acquire())
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            await asked.wait()
            await asyncio.sleep(0)
            kept.append(task)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()

    in_thread(wait)
    return kept.pop()


@pytest.mark.parametrize("kind", KINDS)
def test_the_holder_releases_and_the_next_one_gets_it(
    locks: locknut.Locks, url: str, kind: str
) -> None:
    lease = KINDS[kind](locks).acquire()
    task = closed_while_waiting(url, kind)
    waiting = threading.Event()
    locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
    behind = Started(lambda: bool(KINDS[kind](locks).acquire(timeout=PATIENCE)))
    assert waiting.wait(PATIENCE)
    lease.release()
    assert behind.result()
    assert not task.done()


def test_also_from_a_thread_with_the_number_of_the_loops(url: str) -> None:
    async def main() -> None:
        locks = aio.connect(url)
        signal = locks._client.runtime.signal()
        until = locks._client.runtime.now() + PATIENCE
        task = asyncio.create_task(signal.wait(until))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        kept.extend((signal, task))

    kept: list[Any] = []
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    signal, task = kept  # on the very thread of the loop, which is the same to `get_ident`
    assert signal.gone
    signal.notify()
    assert not task.done()


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_nobody_refers_to_leaves_the_line(url: str, kind: str) -> None:
    with locknut.connect(url) as locks:
        lease = KINDS[kind](locks).acquire()
        task = weakref.ref(closed_while_waiting(url, kind))
        collect()
        assert task() is None
        assert KINDS[kind](locks).info().waiters == ()
        lease.release()
