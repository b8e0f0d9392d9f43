"""A fork: no connection is in two processes, because SQLite forbids that."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from pathlib import Path

import pytest

import locknut
from locknut import aio
from locknut.backends.sql.sqlite import sqlite_file
from locknut.errors import BackendError, NotHeld
from tests.backends.sql.sqlite.place import backend, claim, take, url
from tests.forks.child import in_child, start_child, wait_for

pytestmark = [pytest.mark.sqlite, pytest.mark.faults]


def _open_files(folder: Path) -> list[str]:
    found = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is(fd)]
    return [each for each in found if each.startswith(str(folder))]


def _is(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_parent_and_child_go_on_with_connections_of_their_own(tmp_path: Path) -> None:
    with locknut.connect(url(tmp_path)) as locks, locks.lock("x", ttl=30) as lease:

        def child() -> None:
            assert not _open_files(tmp_path)
            with pytest.raises(NotHeld):
                lease.release()
            assert locks.lock("x").acquire(timeout=0) is None
            with locks.lock("y", timeout=5):
                pass

        in_child(child)
        lease.renew()
        assert locks.info("x").locked


def test_what_a_child_writes_is_not_lost_when_its_parent_closes(tmp_path: Path) -> None:
    """With a connection that was open at the fork, SQLite believes in the child to have locks which
    it has not: the parent deletes the log that the child writes to.
    """
    locks = locknut.connect(url(tmp_path))
    with locks.lock("before"):
        pass
    ready, go = os.pipe(), os.pipe()

    def child() -> None:
        mine = locks.lock("childs", ttl=60)
        assert mine.acquire() is not None
        os.write(ready[1], b"!")
        os.read(go[0], 1)
        assert locks.info("childs").locked
        mine.release()

    pid = start_child(child)
    os.read(ready[0], 1)
    locks.close()
    with locknut.connect(url(tmp_path)) as again:
        assert again.lock("childs").acquire(timeout=0) is None
    os.write(go[1], b"!")
    wait_for(pid)
    for each in (*ready, *go):
        os.close(each)


def test_a_fork_waits_for_the_command_of_another_thread(tmp_path: Path) -> None:
    """A thread that is in the middle of a transaction must not be copied there."""
    with locknut.connect(url(tmp_path)) as locks:
        done = threading.Event()

        def work() -> None:
            while not done.is_set():
                with locks.lock("t"):
                    pass

        thread = threading.Thread(target=work)
        thread.start()

        def child() -> None:
            assert not _open_files(tmp_path)
            with locks.lock("c", timeout=20):
                pass

        for _ in range(5):
            in_child(child)
        done.set()
        thread.join()


def test_a_fork_in_the_middle_of_a_command_leaves_the_file_to_the_parent(tmp_path: Path) -> None:
    """As by a finalizer or a signal handler: what is open there cannot be closed first."""
    made = backend(tmp_path)
    take(made, claim())
    (file,) = [each for each in sqlite_file._all if each._settings.path.startswith(str(tmp_path))]

    def child() -> None:
        with pytest.raises(BackendError, match="forked in the middle"):
            take(made, claim("t:y"))

    def in_the_middle(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        in_child(child)
        connection.execute("ROLLBACK")

    file._alone(30.0, in_the_middle)
    assert take(made, claim("t:z"))
    made.dropped()


def test_a_loop_goes_on_after_a_fork(tmp_path: Path) -> None:
    async def story() -> None:
        async with aio.connect(url(tmp_path)) as locks, locks.lock("x", ttl=30) as lease:

            def child() -> None:
                async def inside() -> None:
                    async with aio.connect(url(tmp_path)) as own:
                        assert await own.lock("x").acquire(timeout=0) is None
                        async with own.lock("y", timeout=5):
                            pass

                assert not _open_files(tmp_path)
                asyncio.set_event_loop(None)
                asyncio._set_running_loop(None)
                asyncio.run(inside())

            in_child(child)
            await lease.renew()

    asyncio.run(story())
