"""Nobody who wants a lock waits for a thread to begin.

`Thread.start()` waits for that, and Ctrl-C in the middle of it can come out as a RuntimeError of
the event that it waits for. It would be taken for the error of a machine that has no threads left:
the interrupt would be lost, and the thread be there all the same.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from locknut.backends.sql.session.arrivals import Arrivals
from locknut.backends.sql.sqlite.aio import _Work, _Worker
from locknut.backends.sql.sqlite.fifo_bells import FifoBells
from locknut.drivers.loop_workers import LoopWorkers
from locknut.drivers.postgresql import listener, session_pool
from locknut.drivers.postgresql.primary import Primary
from locknut.drivers.postgresql.settings import Settings
from locknut.errors import BackendUnavailable
from locknut.runtimes.inline_future import InlineFuture
from locknut.runtimes.threads import ThreadRuntime

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an interrupt does in the worst moment of a wait; only the thread of the test waits so."""
    caller, wait = threading.get_ident(), threading.Event.wait

    def broken(event: threading.Event, timeout: float | None = None) -> bool:
        if threading.get_ident() == caller:
            raise RuntimeError("release unlocked lock")
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", broken)


def _seen(told: SimpleQueue[Any]) -> Any:
    return told.get(timeout=PATIENCE)


def test_the_one_that_opens_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    told: SimpleQueue[int] = SimpleQueue()

    def opened(*_: object) -> None:
        told.put(threading.get_ident())
        raise BackendUnavailable("nobody is there")

    monkeypatch.setattr(session_pool, "open_session", opened)
    pool = session_pool.SessionPool(Settings("nowhere", (), 1.0), Primary())
    wish = session_pool.SessionWish()
    pool.take(wish)
    assert _seen(told) != threading.get_ident()
    pool.give_up(wish)


def test_the_one_that_listens_to_postgresql() -> None:
    told: SimpleQueue[bool] = SimpleQueue()

    def needed() -> bool:
        told.put(True)
        return False

    settings = Settings("nowhere", (), 1.0)
    listener.Listener(settings, Primary(), "channel", lambda _: None, needed)
    assert _seen(told)


def test_the_one_that_watches_sessions() -> None:
    told: SimpleQueue[bool] = SimpleQueue()
    arrivals = Arrivals()
    reads, writes = os.pipe()
    try:
        arrivals.expect(reads, lambda: told.put(True))
        os.write(writes, b"x")
        assert _seen(told)
        arrivals.close()
    finally:
        os.close(reads)
        os.close(writes)


def test_the_one_that_reads_a_pipe(tmp_path: Path) -> None:
    told: SimpleQueue[bool] = SimpleQueue()
    (tmp_path / "locks.db").touch()
    bells = FifoBells(str(tmp_path / "locks.db"), ThreadRuntime())
    bells.expect(b"lx", "a" * 32, "", lambda: told.put(True))
    assert bells._listener is not None
    assert not bells._listener.ended
    assert _seen(told)  # it has begun, and rings everybody
    bells.dropped()


def test_the_one_that_asks_a_file() -> None:
    told: SimpleQueue[bool] = SimpleQueue()
    worker = _Worker()
    loop = asyncio.new_event_loop()
    try:
        worker.give(_work(lambda: told.put(True), loop))
        assert _seen(told)
        worker.end()
    finally:
        loop.close()


def _work(do: Any, loop: asyncio.AbstractEventLoop) -> Any:
    return _Work(do, loop, InlineFuture(loop))


def test_the_one_that_asks_mysql() -> None:
    workers = LoopWorkers("mysql", 1, PATIENCE, TimeoutError)

    async def story() -> int:
        found = await asyncio.wait_for(workers.run(threading.get_ident), PATIENCE)
        workers.close()
        return found

    assert asyncio.run(story()) != threading.get_ident()
