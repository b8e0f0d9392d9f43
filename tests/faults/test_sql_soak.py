"""The same processes on databases that are killed, restarted and stopped and whose sessions are
cut, in lease mode and in session mode, and on an SQLite file that somebody else keeps writing to.

What a database has committed it keeps, so that none of this may end the protection of a hold.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import locknut
from tests.faults.test_soak import SECONDS, WORKERS, Victims, judge
from tests.servers.mysql import MariaServer, MySqlServer
from tests.servers.postgresql import PostgresServer
from tests.servers.sql import SqlServer
from tests.simulation.checker import Assumptions
from tests.simulation.checker.history import Kind

pytestmark = pytest.mark.faults
TTL = 3.0
REST = 4.0
"""Seconds between two restarts: most of the time there has to be a server."""
PATIENCE = 60.0
SERVERS: dict[str, Callable[..., SqlServer]] = {
    "postgresql": PostgresServer,
    "mariadb": MariaServer,
    "mysql": MySqlServer,
}
DATABASES = [pytest.param(each, marks=getattr(pytest.mark, each)) for each in SERVERS]


class SqlVictims(Victims):
    """The workers, and their server."""

    def __init__(self, server: SqlServer, url: str, folder: Path, seed: int, mode: str):
        super().__init__(url, folder, seed, str(TTL))
        self._server = server
        self._by_session = mode == "session"
        self._restarts_at = time.monotonic() + REST / 2

    def disturb(self) -> None:
        if time.monotonic() >= self._restarts_at:
            deed = self.chance.choice(["kill_server", "shut_down"])
        elif self.chance.random() < 0.2:
            deed = self.chance.choices(["cut", "cut_all", "stand_still"], [4, 1, 2])[0]
        else:
            super().disturb()
            return
        self.deeds[deed] += 1
        self._tell_of_sessions()
        getattr(self, f"_{deed}")()
        self._tell_of_sessions()  # what was taken meanwhile may have gone, too

    def _tell_of_sessions(self) -> None:
        """In session mode a hold may end with its session, before its time; exclusion may not."""
        if self._by_session:
            self.tell("", Kind.FORGOT)

    def _kill_server(self) -> None:
        self._server.restart(keep_data=True)
        self._restarts_at = time.monotonic() + REST

    def _shut_down(self) -> None:
        self._server.shut_down()
        self._server.start()
        self._restarts_at = time.monotonic() + REST

    def _cut(self) -> None:
        numbers = self._server.sessions()
        if numbers:
            self._server.end_session(self.chance.choice(numbers))

    def _cut_all(self) -> None:
        self._server.end_sessions()

    def _stand_still(self) -> None:
        self._server.stop()
        time.sleep(self.chance.random() * 0.5)  # the fault itself
        self._server.cont()


class FileVictims(Victims):
    """The workers, and their file."""

    def __init__(self, path: Path, folder: Path, seed: int):
        super().__init__(f"sqlite://{path}", folder, seed, str(TTL))
        self._path = path

    def disturb(self) -> None:
        if self.chance.random() < 0.8:
            super().disturb()
            return
        self.deeds["hold_up"] += 1
        with closing(sqlite3.connect(self._path, 30, isolation_level=None)) as stranger:
            stranger.execute("BEGIN IMMEDIATE")
            time.sleep(self.chance.random() * 0.3)  # the fault itself
            stranger.execute("ROLLBACK")


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("mode", ["lease", "session"])
@pytest.mark.parametrize("scheme", DATABASES)
@pytest.mark.slow
def test_a_server_that_is_disturbed(scheme: str, mode: str, tmp_path: Path) -> None:
    with SERVERS[scheme]() as server:
        url = f"{server.database().url}?mode={mode}"
        seed = _seed()
        victims = SqlVictims(server, url, _folder(tmp_path), seed, mode)
        assert victims.suffer(max(SECONDS, 2 * REST)) == [0] * WORKERS
        assert victims.deeds["kill_server"] + victims.deeds["shut_down"] > 0
        _judge(victims, seed)


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.sqlite
@pytest.mark.slow
def test_a_file_that_others_write_to(tmp_path: Path) -> None:
    seed = _seed()
    path = tmp_path / "locks.db"
    locknut.connect(f"sqlite://{path}").ping()
    victims = FileVictims(path, _folder(tmp_path), seed)
    assert victims.suffer(SECONDS) == [0] * WORKERS
    _judge(victims, seed)


def _seed() -> int:
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    return seed


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "journals"
    folder.mkdir()
    return folder


def _judge(victims: Victims, seed: int) -> None:
    """When the holds of the killed have run out, and their places in line are known to be free."""
    with locknut.connect(victims.url) as locks:
        give_up = time.monotonic() + PATIENCE
        while left := locks.list():
            assert time.monotonic() < give_up, f"ghosts: {left}"
            time.sleep(0.05)
    judge(victims, seed, Assumptions(holds_void_after=frozenset({Kind.BROKEN, Kind.FORGOT})))
