"""Holders that end without releasing: threads, leases, loops, whole programs (L11)."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import locknut
from tests.api.crowd import PATIENCE, TTL, Started, in_thread, renewed


def gone(events: list[locknut.Event], locks: locknut.Locks) -> threading.Event:
    told = threading.Event()

    def hear(event: locknut.Event) -> None:
        events.append(event)
        if event.kind in {"abandoned", "lost"}:
            told.set()

    locks.on_event(hear)
    return told


@pytest.mark.parametrize("options", [{}, {"ttl": 30}, {"ttl": 30, "auto_renew": False}])
def test_a_thread_that_dies_frees_what_it_held(
    locks: locknut.Locks, options: dict[str, Any]
) -> None:
    events: list[locknut.Event] = []
    told = gone(events, locks)

    def die() -> None:
        assert locks.lock("x", **options).acquire()

    in_thread(die)
    lease = locks.lock("x").acquire(timeout=PATIENCE)
    assert lease is not None
    assert told.wait(PATIENCE)
    assert "abandoned" in [event.kind for event in events]
    lease.release()


def test_a_thread_that_dies_inside_with_frees(locks: locknut.Locks) -> None:
    def die() -> None:
        locks.lock("x", ttl=30).__enter__()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_thread(die)
    gc.collect()
    assert locks.lock("x").acquire(timeout=PATIENCE) is not None


def test_a_lease_that_was_handed_on_survives_its_thread(locks: locknut.Locks) -> None:
    lease = in_thread(locks.lock("x", ttl=TTL).acquire)
    gc.collect()
    renewed(lease)
    assert lease.held
    assert locks.lock("x").acquire(blocking=False) is None
    lease.release()
    assert locks.lock("x").acquire(timeout=0) is not None


def test_the_last_reference_frees(locks: locknut.Locks) -> None:
    lease = in_thread(locks.lock("x", ttl=30).acquire)
    assert lease.held
    del lease
    gc.collect()
    assert locks.lock("x").acquire(timeout=PATIENCE) is not None


@pytest.mark.file
@pytest.mark.parametrize("options", [{}, {"ttl": 30}])
def test_on_files_the_end_of_a_thread_frees_what_nobody_refers_to(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    url = f"file:{tmp_path}"
    with locknut.connect(url) as locks, locknut.connect(url) as other:
        lease = in_thread(locks.lock("x", **options).acquire)
        assert other.lock("x").acquire(blocking=False) is None, "somebody refers to it"
        assert lease.held
        del lease
        gc.collect()
        assert other.lock("x").acquire(timeout=PATIENCE) is not None


@pytest.mark.file
@pytest.mark.parametrize("options", [{}, {"ttl": TTL}])
def test_on_files_a_thread_that_lives_keeps_a_lease_that_it_dropped(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    url = f"file:{tmp_path}"
    dropped, end = threading.Event(), threading.Event()
    with locknut.connect(url) as locks, locknut.connect(url) as other:

        def drop() -> None:
            assert locks.lock("x", **options).acquire()  # and nobody refers to it
            gc.collect()
            dropped.set()
            assert end.wait(PATIENCE)
            assert locks.lock("x").held

        thread = Started(drop)
        assert dropped.wait(PATIENCE)
        # If the drop had ended the hold, the keeper would give it back, and we would get it.
        assert other.lock("x").acquire(timeout=0.3) is None
        end.set()
        thread.result()
        assert other.lock("x").acquire(timeout=PATIENCE) is not None, "freed once the thread ended"


def test_a_permit_of_a_dead_thread_comes_back(locks: locknut.Locks) -> None:
    in_thread(lambda: bool(locks.semaphore("x", 1).acquire()))
    gc.collect()
    assert locks.semaphore("x", 1).acquire(timeout=PATIENCE) is not None


def test_nothing_is_kept_of_permits_that_were_released(locks: locknut.Locks) -> None:
    mine = locks._client.runtime.caller()
    before = dict(mine)
    for number in range(3):
        leases = [locks.semaphore(f"x{number}", 2).acquire() for _ in range(2)]
        for lease in leases:
            assert lease is not None
            lease.release()
    assert dict(mine) == before


def test_a_read_hold_of_a_dead_thread_comes_back(locks: locknut.Locks) -> None:
    in_thread(lambda: bool(locks.rwlock("x").read().acquire()))
    gc.collect()
    assert locks.rwlock("x").write().acquire(timeout=PATIENCE) is not None


def test_a_waiter_inherits_from_a_dead_thread(locks: locknut.Locks) -> None:
    taken, die = threading.Event(), threading.Event()
    waiting = threading.Event()
    locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)

    def hold() -> None:
        assert locks.lock("x").acquire()
        taken.set()
        die.wait(PATIENCE)

    holder = Started(hold)
    assert taken.wait(PATIENCE)
    waiter = Started(locks.lock("x").acquire)
    assert waiting.wait(PATIENCE)
    die.set()
    holder.result()
    assert waiter.result() is not None


def test_a_locks_that_is_forgotten_does_not_keep_its_holds(url: str) -> None:
    other = locknut.connect(url)
    in_thread(lambda: bool(locknut.connect(url).lock("x", ttl=30).acquire()))
    gc.collect()
    assert other.lock("x").acquire(timeout=PATIENCE) is not None
    other.close()


def script(text: str) -> subprocess.CompletedProcess[str]:
    head = "import locknut, threading, asyncio, sys\nfrom locknut import aio\n"
    code = head + textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


EXITS = {
    "holding": """
        locknut.connect("memory:").lock("x", ttl=30).acquire()
    """,
    "holding in another thread": """
        locks = locknut.connect("memory:")
        ready = threading.Event()
        def hold():
            with locks.lock("x", ttl=30):
                ready.set()
                threading.Event().wait()
        threading.Thread(target=hold, daemon=True).start()
        ready.wait()
    """,
    "a daemon waiting": """
        locks = locknut.connect("memory:")
        ready = threading.Event()
        locks.on_event(lambda event: ready.set() if event.kind == "waiting" else None)
        lease = locks.lock("x", ttl=30).acquire()
        threading.Thread(target=locks.lock("x").acquire, daemon=True).start()
        ready.wait()
    """,
    "callbacks under way": """
        locks = locknut.connect("memory:")
        called = threading.Event()
        def block(lease):
            called.set()
            threading.Event().wait()
        locks.lock("x", ttl=0.05, auto_renew=False, on_lost=block).acquire()
        called.wait()
    """,
    "a loop that ends while holding": """
        async def main():
            locks = aio.connect("memory:")
            await locks.lock("x", ttl=30).acquire()
        asyncio.run(main())
    """,
    "a loop that ends while waiting": """
        async def main():
            locks = aio.connect("memory:")
            await locks.lock("x", ttl=30).acquire()
            task = asyncio.create_task(locks.lock("x").acquire())
            await asyncio.sleep(0)
        asyncio.run(main())
    """,
    "many held": """
        locks = locknut.connect("memory:")
        leases = [locks.lock(f"x{n}", ttl=30).acquire() for n in range(1000)]
    """,
    "sys.exit inside": """
        with locknut.connect("memory:").lock("x", ttl=30):
            sys.exit(0)
    """,
    "after close": """
        locks = locknut.connect("memory:")
        lease = locks.lock("x", ttl=30).acquire()
        locks.close()
    """,
}


@pytest.mark.parametrize("name", EXITS)
def test_a_program_ends_whatever_it_holds(name: str) -> None:
    before = time.monotonic()
    result = script(EXITS[name])
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert time.monotonic() - before < PATIENCE


@pytest.mark.parametrize("use", ["connect", "lock"])
def test_an_exception_at_top_level_says_only_itself(use: str) -> None:
    make: dict[str, Callable[[], str]] = {
        "connect": lambda: "locks = locknut.connect('memory:'); lock = locks.lock('x', ttl=30)",
        "lock": lambda: "lock = locknut.connect('memory:').lock('x', ttl=30)",
    }
    result = script(f"{make[use]()}\nwith lock:\n    1 / 0\n")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert result.stderr.count("Traceback") == 1
