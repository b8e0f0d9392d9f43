"""Deaths, crowds, foreign writers and full disks end as the contract says."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.sql.sqlite import sqlite_file
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.errors import BackendError, BackendUnavailable
from tests.backends.sql.sqlite.place import heard, program, url

pytestmark = [pytest.mark.sqlite, pytest.mark.faults]
PATIENCE = 110.0
HOLDER = """
import sys, time, locknut
lease = locknut.connect(sys.argv[1]).lock("x", ttl=float(sys.argv[2])).acquire()
print(lease.fence, flush=True)
time.sleep(600)
"""
WRITER = """
import sqlite3, sys, time
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("BEGIN IMMEDIATE")
file.execute("UPDATE locknut_locks SET fence = 0, stamp = 0, holders = 'nobody'")
print("writes", flush=True)
time.sleep(600)
"""
LOCKED = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
file.execute("ROLLBACK")
"""
CROWD = """
import os, sys, locknut
import locknut.backends.sql.sqlite.engine  # before the forks: each would import it
for _ in range(int(sys.argv[2]) - 1):
    if os.fork() == 0:
        break
with locknut.connect(sys.argv[1]) as locks:
    with locks.lock("x", timeout=700) as lease:
        os.write(1, b"%d\\n" % lease.fence)
"""


def _killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_the_lock_of_a_killed_holder_is_free_after_its_ttl(tmp_path: Path) -> None:
    holder = program(HOLDER, url(tmp_path), 2)
    fence = int(heard(holder))
    _killed(holder)
    with locknut.connect(url(tmp_path)) as locks:
        assert locks.lock("x").acquire(timeout=0) is None
        with locks.lock("x", timeout=PATIENCE) as lease:
            assert lease.fence > fence


def test_a_writer_that_is_killed_in_mid_transaction_leaves_nothing(tmp_path: Path) -> None:
    with locknut.connect(url(tmp_path)) as locks, locks.lock("x", ttl=60) as lease:
        writer = program(WRITER, tmp_path / "locks.db")
        assert heard(writer) == "writes"
        _killed(writer)
        lease.renew()
        (holder,) = locks.info("x").holders
        assert holder.fence == lease.fence


@pytest.fixture
def foreign_writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Has the file to itself until it is told to stop."""
    with locknut.connect(url(tmp_path)) as locks, locks.lock("x"):
        pass
    writer = program(LOCKED, tmp_path / "locks.db")
    assert heard(writer) == "locked"
    yield writer
    if writer.poll() is None:
        writer.communicate("\n")


def test_a_timeout_is_kept_while_somebody_else_writes(
    tmp_path: Path, foreign_writer: subprocess.Popen[str]
) -> None:
    with locknut.connect(url(tmp_path)) as locks:
        began = time.monotonic()
        with pytest.raises(BackendUnavailable):
            locks.lock("x").acquire(timeout=0.5)
        assert time.monotonic() - began < 10
        foreign_writer.communicate("\n")
        with locks.lock("x", timeout=PATIENCE):
            pass


@pytest.mark.slow
def test_a_hold_outlives_seconds_of_a_foreign_writer(tmp_path: Path) -> None:
    with locknut.connect(url(tmp_path)) as locks, locks.lock("x", ttl=6) as lease:
        writer = program(LOCKED, tmp_path / "locks.db")
        assert heard(writer) == "locked"
        time.sleep(3)  # longer than a command waits, and than a renewal is due after
        writer.communicate("\n")
        time.sleep(4)  # longer than what was left of the ttl
        lease.check()


def test_a_loop_goes_on_while_somebody_else_writes(
    tmp_path: Path, foreign_writer: subprocess.Popen[str]
) -> None:
    async def story() -> int:
        async with aio.connect(url(tmp_path)) as locks:
            task = asyncio.ensure_future(locks.lock("x").acquire(timeout=PATIENCE))
            turns = 0
            while turns < 50:
                await asyncio.sleep(0.01)
                turns += 1
            assert not task.done()
            await asyncio.to_thread(foreign_writer.communicate, "\n")
            lease = await task
            assert lease is not None
            await lease.release()
        return turns

    assert asyncio.run(story()) == 50


def test_other_writers_are_waited_for_in_short_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on until the other one has ended, and is never far from noticing it."""
    with locknut.connect(url(tmp_path)) as locks:
        locks.ping()
        writer = program(LOCKED, str(tmp_path / "locks.db"))
        assert heard(writer) == "locked"
        steps: list[float] = []

        def sleep(seconds: float) -> None:
            steps.append(seconds)
            if len(steps) == 30:
                writer.communicate("\n")

        monkeypatch.setattr("locknut.backends.sql.sqlite.sqlite_file.time.sleep", sleep)
        with locks.lock("x"):
            pass
    assert len(steps) >= 30
    assert max(steps) <= sqlite_file.LONGEST_PAUSE
    assert steps[0] <= sqlite_file.FIRST_PAUSE


def test_closing_with_many_holds_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their releases are one transaction: one wait for the disk, not two hundred."""
    locks = locknut.connect(url(tmp_path))
    leases = [locks.lock(f"x{n}", ttl=60).acquire() for n in range(200)]
    assert all(leases)
    transactions: list[str] = []

    def counted(verb: str) -> Any:
        real = getattr(SqliteFile, verb)

        def counting(*arguments: Any) -> Any:
            transactions.append(verb)
            return real(*arguments)

        return counting

    for verb in ("_alone", "say"):
        monkeypatch.setattr(SqliteFile, verb, counted(verb))
    locks.close()
    assert len(transactions) < 10
    with locknut.connect(url(tmp_path)) as others:
        assert not others.list()


@pytest.mark.slow
def test_two_hundred_tasks_wait_with_few_descriptors(tmp_path: Path) -> None:
    async def story() -> list[int]:
        fences: list[int] = []
        async with aio.connect(url(tmp_path)) as locks, aio.connect(url(tmp_path)) as first:
            lock = first.lock("x", ttl=60)
            await lock.acquire()
            before = len(os.listdir("/proc/self/fd"))

            async def use() -> None:
                async with locks.lock("x", fair=True, timeout=300) as lease:
                    fences.append(lease.fence)

            tasks = [asyncio.ensure_future(use()) for _ in range(200)]
            while len((await first.info("x")).waiters) < 200:  # noqa: ASYNC110 -- in another client
                await asyncio.sleep(0.05)
            assert len(os.listdir("/proc/self/fd")) <= before + 8
            assert threading.active_count() < 20
            await lock.release()
            await asyncio.gather(*tasks)
        return fences

    fences = asyncio.run(story())
    assert len(set(fences)) == 200
    assert fences == sorted(fences)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_processes_wait_and_each_gets_it_once(tmp_path: Path) -> None:
    """With a crowd's patience: there are more of them than the machine has time for."""
    there = url(tmp_path, "?timeout=120")
    with locknut.connect(there) as locks:
        lease = locks.lock("x", ttl=700).acquire()
        assert lease is not None
        crowd = program(CROWD, there, 200)
        give_up = time.monotonic() + 700
        while len(locks.info("x").waiters) < 200:
            assert time.monotonic() < give_up, "they do not all stand in line"
            time.sleep(0.2)
        lease.release()
        said, _ = crowd.communicate()  # until the last of them has ended
    assert len({int(fence) for fence in said.split()}) == len(said.split()) == 200
    assert os.listdir(tmp_path) == ["locks.db"]


@pytest.mark.root
def test_a_full_disk_is_an_error_and_then_goes_on(tmp_path: Path) -> None:
    mounted = tmp_path / "small"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(mounted)], check=True)
    try:
        with locknut.connect(url(mounted)) as locks:
            with locks.lock("x"):
                pass
            filler = mounted / "filler"
            with pytest.raises(OSError, match="space"):
                _fill(filler)
            with pytest.raises(BackendError, match=r"full|I/O"):
                _use(locks, 1000)
            filler.unlink()
            with locks.lock("y", timeout=PATIENCE):
                pass
    finally:
        _unmount(mounted)


def _unmount(place: Path) -> None:
    """As soon as the keeper has closed its own connection, which it does behind `close()`."""
    give_up = time.monotonic() + PATIENCE
    while subprocess.run(["umount", str(place)], check=False).returncode != 0:
        assert time.monotonic() < give_up, f"{place} stays in use"
        time.sleep(0.05)  # no event tells of it


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def _use(locks: locknut.Locks, names: int) -> None:
    for n in range(names):
        with locks.lock(f"x{n}", timeout=5):
            pass
