"""Waiting processes are rung through named pipes, which leave nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

import locknut
from locknut.backends.sql import waiting_claims
from locknut.backends.sql.sqlite.fifos import Fifos
from tests.backends.sql.sqlite.place import heard, program, url

pytestmark = [pytest.mark.sqlite, pytest.mark.faults]
WAITER = """
import sys, time, locknut
from locknut.backends.sql import waiting_claims
waiting_claims.NEAR = waiting_claims.FAR = 3600.0
with locknut.connect(sys.argv[1]) as locks:
    print("waits", flush=True)
    with locks.lock("x", timeout=60, fair=True):
        print(time.monotonic(), flush=True)
        sys.stdin.readline()
"""
PATIENCE = 30.0


def _until(true: object, what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not true():  # type: ignore[operator]
        assert time.monotonic() < give_up, what
        time.sleep(0.01)


def _bells(folder: Path) -> list[str]:
    try:
        return [each for each in os.listdir(folder / "locks.db-bells") if each[0] != "."]
    except FileNotFoundError:
        return []


def test_a_release_rings_another_process_without_the_net(tmp_path: Path) -> None:
    """With a net of an hour, only the pipe can end this wait."""
    with locknut.connect(url(tmp_path)) as locks:
        lock = locks.lock("x", ttl=60, fair=True)
        lock.acquire()
        waiter = program(WAITER, url(tmp_path))
        assert heard(waiter) == "waits"
        _until(lambda: _bells(tmp_path) and locks.info("x").waiters, "nobody waits")
        time.sleep(0.5)  # it asks once more when it has begun to listen
        lock.release()
        assert float(heard(waiter)) > 0
        waiter.communicate("go\n")
    assert waiter.returncode == 0
    assert os.listdir(tmp_path) == ["locks.db"]


@pytest.mark.slow
def test_what_a_killed_waiter_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    with locknut.connect(url(tmp_path)) as locks:
        lock = locks.lock("x", ttl=60)
        lock.acquire()
        killed = program(WAITER, url(tmp_path))
        _until(lambda: _bells(tmp_path), "no pipe")
        (left,) = _bells(tmp_path)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert _bells(tmp_path) == [left]
        with locknut.connect(url(tmp_path)) as others:
            thread = threading.Thread(target=others.lock("x").acquire, kwargs={"timeout": 20})
            thread.start()
            _until(lambda: _bells(tmp_path) not in ([], [left]), "no new pipe")
            assert left not in _bells(tmp_path)
            lock.release()
            thread.join()
    _until(lambda: not (tmp_path / "locks.db-bells").exists(), "the folder is still there")


def test_a_ring_to_a_dead_pipe_removes_it(tmp_path: Path) -> None:
    (tmp_path / "locks.db").touch()
    fifos, client = Fifos(str(tmp_path / "locks.db")), "a" * 32
    os.close(fifos.make(client))
    assert _bells(tmp_path) == [client]
    fifos.ring(client, "b" * 32)
    assert _bells(tmp_path) == []


def test_pipes_have_the_rights_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "locks.db").touch()
    (tmp_path / "locks.db").chmod(0o660)
    fifos = Fifos(str(tmp_path / "locks.db"))
    fd = fifos.make("a" * 32)
    folder = tmp_path / "locks.db-bells"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o770
    assert stat.S_IMODE((folder / ("a" * 32)).stat().st_mode) == 0o660
    os.close(fd)
    fifos.remove("a" * 32)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["../locks.db", "a" * 31, ""])
def test_no_file_but_a_pipe_is_ever_written_to(tmp_path: Path, name: str) -> None:
    (tmp_path / "locks.db").write_text("data")
    (tmp_path / "locks.db-bells").mkdir()
    (tmp_path / "locks.db-bells" / ("b" * 32)).write_text("other")
    fifos = Fifos(str(tmp_path / "locks.db"))
    for client in (name, "b" * 32):
        fifos.ring(client, "c" * 32)
    assert (tmp_path / "locks.db").read_text() == "data"
    assert (tmp_path / "locks.db-bells" / ("b" * 32)).read_text() == "other"


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "locks.db").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks.db-bells").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        Fifos(str(tmp_path / "locks.db")).make("a" * 32)
    assert not os.listdir(tmp_path / "elsewhere")


def test_without_pipes_waits_end_all_the_same(tmp_path: Path) -> None:
    """A file where the folder should be: claims look by themselves."""
    (tmp_path / "locks.db-bells").write_text("")
    with locknut.connect(url(tmp_path)) as locks:
        lock = locks.lock("x", fair=True)
        lock.acquire()
        waiter = program(WAITER.replace("= 3600.0", "= 0.5"), url(tmp_path))
        assert heard(waiter) == "waits"
        _until(lambda: locks.info("x").waiters, "nobody waits")
        lock.release()
        assert float(heard(waiter)) > 0
        waiter.communicate("go\n")


def test_a_crowd_in_one_process_has_one_pipe(tmp_path: Path) -> None:
    with locknut.connect(url(tmp_path)) as locks:
        lock = locks.lock("x", ttl=60)
        lock.acquire()
        before = len(os.listdir("/proc/self/fd"))
        others = locknut.connect(url(tmp_path))
        semaphores = [others.lock("x", fair=True) for _ in range(50)]

        def use(one: locknut.Lock) -> None:
            with one:
                pass

        threads = [threading.Thread(target=use, args=(each,)) for each in semaphores]
        for thread in threads:
            thread.start()
        _until(lambda: len(locks.info("x").waiters) == 50, "they do not all wait")
        assert len(_bells(tmp_path)) == 1
        assert len(os.listdir("/proc/self/fd")) <= before + 8
        lock.release()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        others.close()
    assert waiting_claims.NEAR == 1.0
    _until(lambda: not (tmp_path / "locks.db-bells").exists(), "the folder is still there")
