"""A blocking lock that waits where an event loop runs: the loop stands still, and that is told."""

from __future__ import annotations

import asyncio
import linecache
import secrets
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.runtimes import threads
from tests.api.crowd import PATIENCE, Started, in_thread

Warned = locknut.BlockingInLoopWarning


@pytest.fixture(
    params=["memory", pytest.param("file", marks=pytest.mark.file),
            pytest.param("redis", marks=pytest.mark.redis)]
)  # fmt: skip
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        server: str = request.getfixturevalue("redis_server").url
        return f"{server}?namespace={secrets.token_hex(8)}"
    return f"memory:{secrets.token_hex(8)}" if request.param == "memory" else f"file:{tmp_path}"


@pytest.fixture
def other(url: str) -> Iterator[locknut.Locks]:
    """Another client of the same engine: what it holds has to be waited for."""
    with locknut.connect(url) as made:
        yield made


def in_loop(call: Callable[[], Any]) -> Any:
    """What it returns where a loop runs."""

    async def main() -> Any:
        return call()

    return asyncio.run(main())


@contextmanager
def released_when_waited_for(locks: locknut.Locks, name: str) -> Iterator[None]:
    """It is held until somebody stands in the engine's line. Nobody listens to events for this:
    where somebody does, Redis is asked in another way.
    """
    held = threading.Event()

    def hold() -> None:
        with locks.lock(name):
            held.set()
            give_up = time.monotonic() + PATIENCE
            while not locks.info(name).waiters and time.monotonic() < give_up:
                time.sleep(0.01)

    holder = Started(hold)
    assert held.wait(PATIENCE)
    yield
    holder.result()


def enter(locks: locknut.Locks) -> None:
    with locks.lock("x"):
        pass


def take_all(locks: locknut.Locks) -> None:
    with locks.all("x", "y"):
        pass


def take(lock: locknut.Lock) -> None:
    lease = lock.acquire()  # the line that waits
    assert lease is not None
    lease.release()


USES: dict[str, Callable[[locknut.Locks], None]] = {
    "acquire": lambda locks: take(locks.lock("x")),
    "with": enter,
    "fair": lambda locks: take(locks.lock("x", fair=True)),
    "write": lambda locks: take(locks.rwlock("x").write()),
    "read": lambda locks: take(locks.rwlock("x").read()),
    "decorated": lambda locks: locks.locked("x", on_busy="wait")(lambda: None)(),
    "all": take_all,
}
WAITS = ("with locks.", "locks.locked(", "# the line that waits")
"""What the line of this file that a warning shows may have in it."""


@pytest.mark.parametrize("use", USES)
def test_a_wait_warns_once_at_the_line_that_waits(
    locks: locknut.Locks, other: locknut.Locks, use: str
) -> None:
    with released_when_waited_for(other, "x"), pytest.warns() as told:
        in_loop(lambda: USES[use](locks))
    (warning,) = told
    assert warning.category is Warned
    assert "locknut.aio" in str(warning.message)
    assert warning.filename == __file__
    shown = linecache.getline(warning.filename, warning.lineno)
    assert any(each in shown for each in WAITS)


@pytest.mark.parametrize("use", USES)
def test_an_engine_that_sleeps_with_the_question_warns_too(
    locks: locknut.Locks, other: locknut.Locks, use: str
) -> None:
    with other.lock("x"):
        assert locks.lock("x").acquire(timeout=0.05) is None  # now it is known to be crowded
    with released_when_waited_for(other, "x"), pytest.warns(Warned) as told:
        in_loop(lambda: USES[use](locks))
    assert len(told) == 1


def test_a_wait_in_the_line_of_the_process_warns_once(locks: locknut.Locks) -> None:
    lease = in_thread(locks.lock("x").acquire)
    locks.on_event(lambda event: lease.release() if event.kind == "waiting" else None)
    with pytest.warns(Warned) as told:
        assert in_loop(locks.lock("x").acquire).held
    assert len(told) == 1


def test_who_waits_in_the_line_and_then_in_the_engine_is_told_once(
    locks: locknut.Locks, other: locknut.Locks
) -> None:
    waiting = threading.Event()
    locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
    with other.lock("x"):
        first = Started(lambda: locks.lock("x").acquire(timeout=0.5))
        assert waiting.wait(PATIENCE)
        with pytest.warns(Warned) as told:
            assert in_loop(lambda: locks.lock("x").acquire(timeout=2)) is None
        assert first.result() is None
    assert len(told) == 1


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("crowded", [False, True])
def test_a_warning_that_is_an_error_leaves_nothing_behind(
    locks: locknut.Locks, other: locknut.Locks, use: str, crowded: bool
) -> None:
    with other.lock("x"):
        if crowded:
            assert locks.lock("x").acquire(timeout=0.05) is None
        with pytest.raises(Warned):  # pytest makes errors of all warnings here
            in_loop(lambda: USES[use](locks))
        assert other.info("x").waiters == ()
        assert not locks.lock("x").held
        assert locks._client.lines == {}
    for name in ("x", "y"):
        lease = other.lock(name).acquire(blocking=False)
        assert lease is not None
        lease.release()
    with locks.lock("x"):
        pass


def test_an_error_in_the_line_of_the_process_leaves_nothing_behind(locks: locknut.Locks) -> None:
    lease = in_thread(locks.lock("x").acquire)
    with pytest.raises(Warned):
        in_loop(locks.lock("x").acquire)
    lease.release()
    assert locks._client.lines == {}
    assert locks.info("x").holders == ()


def test_who_does_not_wait_is_not_even_looked_at(
    locks: locknut.Locks, other: locknut.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked() -> bool:
        raise AssertionError("an acquire that does not wait asked for the running loop")

    monkeypatch.setattr(threads, "runs_a_loop", looked)

    def main() -> None:
        for use in USES.values():
            use(locks)
        with other.lock("x"):
            assert locks.lock("x").acquire(blocking=False) is None

    in_loop(main)


def test_waits_that_stop_no_loop_do_not_warn(
    url: str, locks: locknut.Locks, other: locknut.Locks
) -> None:
    async def main() -> None:
        with released_when_waited_for(other, "x"):
            await asyncio.to_thread(USES["acquire"], locks)
        async with aio.connect(url) as tasks:
            with released_when_waited_for(other, "x"):
                async with tasks.lock("x"):
                    pass

    asyncio.run(main())
    with released_when_waited_for(other, "x"), locks.lock("x"):
        pass


def script(text: str, url: str) -> subprocess.CompletedProcess[str]:
    """A program that has two clients of this engine, of which the second has the lock."""
    code = f"""\
import sys, locknut
locks, other = locknut.connect({url!r}), locknut.connect({url!r})
lease = other.lock("x").acquire()
{textwrap.dedent(text)}"""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_python_shows_it_once_for_each_line_of_code() -> None:
    program = """
        import asyncio
        async def main():
            for _ in range(3):
                assert locks.lock("x").acquire(timeout=0.3) is None
            assert locks.lock("x").acquire(timeout=0.3) is None
        asyncio.run(main())
    """
    done = script(program, "memory:")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("BlockingInLoopWarning") == 2
    assert "<string>:8: BlockingInLoopWarning: " in done.stderr
    assert "<string>:9: BlockingInLoopWarning: " in done.stderr


def test_it_is_ignored_by_its_class() -> None:
    program = """
        import asyncio, warnings
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", locknut.BlockingInLoopWarning)
        async def main():
            assert locks.lock("x").acquire(timeout=0.3) is None
        asyncio.run(main())
    """
    done = script(program, "memory:")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_wait_without_a_loop_does_not_import_asyncio(tmp_path: Path) -> None:
    program = """
        assert locks.lock("x").acquire(timeout=0.3) is None
        print("asyncio" in sys.modules, "locknut.runtimes.threads" in sys.modules)
    """
    done = script(program, f"file:{tmp_path}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False True\n", "")
