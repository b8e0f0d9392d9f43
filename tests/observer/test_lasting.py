"""An observer goes on, whatever it meets: a page that stands still looks as if all were well."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import locknut
from locknut.observer.place_observer import PlaceObserver
from tests.observer.people import held
from tests.servers.processes import until
from tests.servers.redis import RedisServer


@pytest.mark.sqlite
def test_a_row_that_is_no_row_of_ours_is_told_and_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"

    def change(statement: str) -> None:
        with closing(sqlite3.connect(path, timeout=60)) as file, file:
            file.execute(statement)

    with (
        locknut.connect(f"sqlite://{path}") as locks,
        closing(PlaceObserver(locks, refresh=0.02)) as observer,
    ):
        held(locks, "x")
        observer.start()
        until(lambda: observer.picture.held, "it is seen")
        change("UPDATE locknut_locks SET holders = 'rubbish ' || holders")
        until(lambda: "cannot be read" in observer.picture.problem, "it is told")
        assert [each.kind for each in observer.concerns()] == ["unreachable"]
        change("UPDATE locknut_locks SET holders = substr(holders, 9)")
        until(lambda: not observer.picture.problem, "it looks again")
        assert observer.picture.held == 1


@pytest.mark.redis
@pytest.mark.faults
@pytest.mark.slow
def test_a_server_that_hangs_is_told_while_the_last_picture_stays() -> None:
    with (
        RedisServer() as server,
        locknut.connect(server.url) as locks,
        closing(PlaceObserver(locks, refresh=0.05)) as observer,
    ):
        held(locks, "x")
        observer.doctor.wanted = True
        observer.start()
        until(lambda: observer.picture.held, "it is seen")
        server.stop()
        try:
            until(lambda: observer.picture.problem, "it is told")
            began = time.monotonic()
            kinds = [each.kind for each in observer.concerns()]
            assert time.monotonic() - began < 1.0, "nobody who looks waits for the server"
            assert kinds[0] == "unreachable"
            assert observer.picture.held == 1
        finally:
            server.cont()
        until(lambda: not observer.picture.problem, "it answers again")


FORKS = """
import os, sys, time, locknut
from locknut.observer.place_observer import PlaceObserver

locks = locknut.connect(sys.argv[1])
observer = PlaceObserver(locks, refresh=0.02)
observer.start()
while not observer.picture.version:
    time.sleep(0.01)
with observer.guard:  # as a server that forks has it: nobody is in the middle of a listing
    child = os.fork()
if not child:
    seen = observer.picture.version
    observer.start()
    while observer.picture.version < seen + 3:
        time.sleep(0.01)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
observer.close()
locks.close()
"""


@pytest.mark.file
def test_a_forked_child_looks_for_itself(tmp_path: Path) -> None:
    """As where a server loads an application with a dashboard, and then forks its workers."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS, f"file://{tmp_path}/locks"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "7\n", done.stderr
