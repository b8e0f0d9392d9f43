"""The machine has no thread left: an error that says so, nothing leaked, and later it goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import locknut
import locknut.aio
from locknut.backends.memory import MemoryEngine
from locknut.core import losing
from locknut.runtimes import threads
from tests.core.test_interrupted_keeper import until
from tests.no_threads import SAYS, STARTS, no_threads

SOURCE = Path(__file__).parents[2] / "src"
REFUSED = f"cannot be started .{SAYS}.*ulimit -u"


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    request.applymarker(request.param)
    return f"memory:{tmp_path}" if request.param == "memory" else f"file://{tmp_path}/locks"


def nothing_left(locks: Any) -> bool:
    """Of this one's: the calling thread may have leases of a test before."""
    client = locks._client
    leases = [each for each in client.runtime.caller().leases() if each._client is client]
    return not (client.holds or client.lines or leases)


def test_a_lock_that_nobody_would_renew_is_not_granted(engine: str) -> None:
    with locknut.connect(engine) as locks:
        lock = locks.lock("x", ttl=30)
        with no_threads():
            with pytest.raises(locknut.BackendUnavailable, match=REFUSED):
                lock.acquire()
            with pytest.raises(locknut.BackendUnavailable, match=REFUSED), lock:
                pass
            with pytest.raises(locknut.BackendUnavailable, match=REFUSED):
                locks.all("x", "y", ttl=30).acquire()
            assert nothing_left(locks)
            assert not locks.list()
        with locks.all("x", "y", ttl=30):
            assert lock.held


def test_on_a_loop(engine: str) -> None:
    async def story() -> None:
        async with locknut.aio.connect(engine) as locks:
            lock = locks.lock("x", ttl=30)
            with no_threads():
                with pytest.raises(locknut.BackendUnavailable, match=REFUSED):
                    await lock.acquire()
                with pytest.raises(locknut.BackendUnavailable, match=REFUSED):
                    async with lock:
                        pass
                assert nothing_left(locks)
                assert not await locks.list()
            async with lock:
                assert lock.held

    asyncio.run(story())


def test_what_was_detached_can_be_attached_later(engine: str) -> None:
    """It was released: the text, which works once, was spent."""
    with locknut.connect(engine) as locks, locknut.connect(engine) as others:
        lease = locks.lock("x", ttl=30).acquire()
        assert lease is not None
        text = lease.detach(60)
        with no_threads():
            with pytest.raises(locknut.BackendUnavailable, match=REFUSED):
                others.attach(text)
            assert nothing_left(others)
        assert others.lock("x").acquire(timeout=0) is None
        with others.attach(text) as attached:
            assert attached.fence == lease.fence


def test_what_was_detached_can_be_attached_later_on_a_loop(engine: str) -> None:
    async def story() -> None:
        async with locknut.aio.connect(engine) as locks, locknut.aio.connect(engine) as others:
            lease = await locks.lock("x", ttl=30).acquire()
            assert lease is not None
            text = await lease.detach(60)
            with no_threads(), pytest.raises(locknut.BackendUnavailable, match=REFUSED):
                await others.attach(text)
            async with await others.attach(text) as attached:
                assert attached.fence == lease.fence

    asyncio.run(story())


def test_who_waits_behind_it_in_the_line_goes_on(engine: str) -> None:
    """The first one fails once it is granted; those behind it are not left to wait."""
    with locknut.connect(engine) as locks:
        failed: list[BaseException] = []

        def acquires() -> None:
            try:
                locks.lock("x", ttl=30, timeout=60).acquire()
            except locknut.BackendUnavailable as error:
                failed.append(error)

        others = [threading.Thread(target=acquires) for _ in range(3)]
        with locknut.connect(engine) as holder, holder.lock("x", ttl=30):
            for other in others:
                other.start()
            until(lambda: bool(locks._client.waiting), "they wait")
            refusing = no_threads()
            refusing.__enter__()
        try:
            for other in others:
                other.join(30)
                assert not other.is_alive(), "nobody waits for what will never come"
        finally:
            refusing.__exit__(None, None, None)
        assert len(failed) == 3
        with locks.lock("x", timeout=0):
            pass


def test_who_gives_something_back_behind_its_back_wakes_the_others() -> None:
    """A loss that the caller finds by the clock, where the keeper is gone and none can be had."""
    with locknut.Locks(MemoryEngine("undone")) as locks:
        lease = locks.lock("x", ttl=30).acquire()
        assert lease is not None
        client, told, won = locks._client, threading.Event(), threading.Event()
        lease.on_lost(lambda _: told.set())

        def waits() -> None:
            with locks.lock("x", timeout=60):
                won.set()

        other = threading.Thread(target=waits)
        other.start()
        until(lambda: bool(client.waiting), "it waits")
        keeper = client.keeper
        before, keeper._tickets = keeper._tickets, [object()]  # as if its thread had ended
        with no_threads():
            losing.lose(client, lease._hold, "expired")  # raised, and told nobody
            assert lease.state is locknut.State.LOST
        keeper._tickets = before
        assert won.wait(3), "woken at once, not when it looks by itself"
        other.join()


def test_what_could_not_be_started_is_started_with_the_next(engine: str) -> None:
    """The keeper has died and none could follow: the next hold has one."""
    with locknut.connect(engine) as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        keeper = locks._client.keeper
        keeper._tickets.clear()
        with no_threads():
            keeper._leave_to_another(ours=True)
        keeper._tickets, tickets = [object()], keeper._tickets
        assert len(tickets) == 1, "nobody has it"
        keeper._tickets = tickets
        with locks.lock("y", ttl=30 if engine.startswith("memory") else None):
            assert not keeper._tickets, "it was started"
        lease.release()


def test_a_program_whose_main_thread_has_ended_gets_the_error_as_well() -> None:
    """It was taken for the end of the interpreter, and the hold was granted without a keeper."""
    program = """
import threading
import locknut
def worker():
    main.join()
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")
    setattr(threading, STARTS, refuse)
    with locknut.connect("memory:") as locks:
        try:
            lease = locks.lock("x", ttl=30).acquire()
        except locknut.BackendUnavailable:
            print("refused")
        else:
            print("granted", lease)
main = threading.main_thread()
threading.Thread(target=worker).start()
""".replace("STARTS", repr(STARTS))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "refused"), done.stderr


@pytest.mark.parametrize("word", ["start", "create"])
def test_at_the_end_of_the_interpreter_it_is_granted_for_its_ttl(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(f"can't {word} new thread at interpreter shutdown")

    monkeypatch.setattr(threading, STARTS, refuse)
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    start: Callable[[Any], object] = threads.start
    start(work())
    assert not ran
