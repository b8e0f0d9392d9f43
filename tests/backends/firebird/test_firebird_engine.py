"""What befalls the locks of the Firebird example: races, restarts, and a clock in local time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import locknut
from tests.faults.test_soak import SECONDS, WORKERS, Victims, judge
from tests.servers.firebird import PASSWORD, FirebirdServer
from tests.simulation.checker import Assumptions
from tests.simulation.checker.history import Kind

pytestmark = pytest.mark.firebird
TTL = 3.0
PATIENCE = 60.0


def test_clients_that_race_for_a_table_and_a_name_which_nobody_has_made(
    url: str, patient_callers: None
) -> None:
    racers, held, start = 8, list[object](), threading.Barrier(8)

    def race() -> None:
        with locknut.connect(f"{url}?timeout=60") as locks:
            start.wait(PATIENCE)
            try:
                held.append(locks.lock("name").acquire(blocking=False) is not None)
            except locknut.LocknutError as error:
                held.append(error)
            start.wait(PATIENCE)  # nobody gives it back before all have asked

    threads = [threading.Thread(target=race) for _ in range(racers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert sorted(map(str, held)) == ["False"] * (racers - 1) + ["True"]


def test_what_was_granted_outlives_the_server_and_so_do_its_numbers() -> None:
    with FirebirdServer() as server:
        url = server.new_url()
        with locknut.connect(url) as locks, locknut.connect(url) as others:
            lease = locks.lock("name", ttl=30).acquire()
            assert lease is not None
            server.restart()
            assert others.lock("name").acquire(blocking=False) is None
            lease.release()
            later = others.lock("name").acquire(timeout=PATIENCE)
            assert later is not None
            assert later.fence > lease.fence
            later.release()


def test_a_server_that_tells_local_time_is_refused() -> None:
    """It could jump by an hour, and end all locks."""
    with (
        FirebirdServer(zone="XYZ-9") as server,
        locknut.connect(server.new_url()) as locks,
    ):
        with pytest.raises(locknut.ConfigurationError, match="TZ=UTC"):
            locks.lock("name").acquire(timeout=1)
        assert locks.backend is not None


def test_a_wrong_password_and_a_database_that_is_not_there(url: str) -> None:
    for wrong in (url.replace(PASSWORD, "wrong"), f"{url}x"):
        with locknut.connect(wrong) as locks, pytest.raises(locknut.ConfigurationError):
            locks.lock("name").acquire(timeout=1)


def test_nobody_answers(url: str) -> None:
    with FirebirdServer() as gone:
        url = gone.new_url()
    with locknut.connect(url) as locks, pytest.raises(locknut.BackendUnavailable):
        locks.lock("name").acquire(timeout=1)


class FirebirdVictims(Victims):
    """The workers, and their server."""

    def __init__(self, server: FirebirdServer, folder: Path, seed: int):
        super().__init__(server.new_url(), folder, seed, str(TTL))
        self._server = server
        self._restarts_at = time.monotonic() + TTL

    def disturb(self) -> None:
        if time.monotonic() >= self._restarts_at:
            self.deeds["restart"] += 1
            self._server.restart()
            self._restarts_at = time.monotonic() + TTL
        elif self.chance.random() < 0.1:
            self.deeds["stand_still"] += 1
            self._server.stop()
            time.sleep(self.chance.random() * 0.5)  # the fault itself
            self._server.cont()
        else:
            super().disturb()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
def test_processes_and_a_server_that_are_killed_and_stopped(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    folder = tmp_path / "journals"
    folder.mkdir()
    with FirebirdServer() as server:
        victims = FirebirdVictims(server, folder, seed)
        assert victims.suffer(max(SECONDS, 3 * TTL)) == [0] * WORKERS
        assert victims.deeds["restart"]
        with locknut.connect(victims.url) as locks:
            give_up = time.monotonic() + PATIENCE
            while left := locks.list():
                assert time.monotonic() < give_up, f"ghosts: {left}"
                time.sleep(0.05)
        judge(victims, seed, Assumptions(holds_void_after=frozenset({Kind.BROKEN, Kind.FORGOT})))
