"""The same processes on a Redis server that is cut off, stopped, frozen, flushed and killed, and on
one behind Sentinels that fails over.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import locknut
from locknut.runtimes import clock
from tests.faults.test_soak import SECONDS, WORKERS, Victims, judge
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SentinelService
from tests.simulation.checker import Assumptions
from tests.simulation.checker.history import Kind, read

pytestmark = [pytest.mark.faults, pytest.mark.redis]
TTL = 2.0
REST = 4.0
"""Seconds between two failovers."""
GIVEN = Assumptions(exclusion_void_after=frozenset({Kind.FORGOT, Kind.BROKEN}))
"""A server that forgets its data ends the protection of the holds before; fences still grow."""


class Victim(Victims):
    """The workers, and their server."""

    def __init__(self, server: RedisServer, folder: Path, seed: int, layout: str = ""):
        url = f"{server.url}?socket_timeout=1" + (f"&layout={layout}" if layout else "")
        super().__init__(url, folder, seed, str(TTL))
        self._server = server
        self._forgets = layout != "redisson"  # there a fence counts from 1, and then would again

    def disturb(self) -> None:
        if self.chance.random() < 0.6:
            super().disturb()
            return
        deeds = ["cut", "unload", "stand_still", "freeze", "flush", "restart"]
        weights = [4, 4, 2, 2, 1, 1] if self._forgets else [4, 4, 2, 2, 0, 0]
        deed = self.chance.choices(deeds, weights)[0]
        self.deeds[deed] += 1
        getattr(self, f"_{deed}")()

    def _cut(self) -> None:
        self._server.client_kill()

    def _unload(self) -> None:
        self._server.script_flush()

    def _stand_still(self) -> None:
        self._server.stop()
        time.sleep(self.chance.random() * 0.3)  # the fault itself
        self._server.cont()

    def _freeze(self) -> None:
        with self._server.freeze(self.chance.random() * 0.3) as wire:
            wire.read()

    def _flush(self) -> None:
        self.tell("", Kind.FORGOT)
        self._server.flushall()
        self.tell("", Kind.FORGOT)  # what was taken between the two is gone too

    def _restart(self) -> None:
        self.tell("", Kind.FORGOT)
        self._server.restart(keep_data=False)
        self.tell("", Kind.FORGOT)


class ServiceVictim(Victims):
    """The workers, and the master that the Sentinels name."""

    def __init__(self, service: SentinelService, folder: Path, seed: int):
        super().__init__(f"{service.url}?socket_timeout=1", folder, seed, str(TTL))
        self._service = service
        self._next = time.monotonic() + REST
        self._changes: list[tuple[float, float]] = []

    def disturb(self) -> None:
        if time.monotonic() < self._next:
            super().disturb()
            return
        deed = self.chance.choice(["fail_over", "die"])
        self.deeds[deed] += 1
        began = clock.now()
        self.tell("", Kind.FORGOT)  # what the next master did not get yet
        getattr(self, f"_{deed}")()
        self._service.wait_until_whole()
        self.tell("", Kind.FORGOT)  # what was given out by a master that was none any more
        self._changes.append((began, clock.now()))
        self._next = time.monotonic() + REST

    def excuse(self) -> None:
        """While one master takes over from another there may be two, and nobody is protected."""
        for event in read(self.folder.glob("*.jsonl")):
            changing = any(began <= event.t <= ended for began, ended in self._changes)
            if event.kind is Kind.ACQUIRED and changing:
                self.tell("", Kind.FORGOT, event.name, at=event.t)

    def _fail_over(self) -> None:
        self._service.failover()

    def _die(self) -> None:
        old = self._service.master
        old.kill()
        self._service.wait_for_another(old)


@pytest.mark.timeout(SECONDS + 180)
@pytest.mark.slow
def test_the_master_fails_over(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    folder = tmp_path / "journals"
    folder.mkdir()
    with SentinelService() as service:
        victims = ServiceVictim(service, folder, seed)
        assert victims.suffer(max(SECONDS, 3 * REST)) == [0] * WORKERS
        assert victims.deeds["fail_over"] + victims.deeds["die"] > 0
        victims.excuse()
        judge(victims, seed, GIVEN)


@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("layout", ["", "redisson", "redis-py"])
@pytest.mark.slow
def test_clients_and_server_are_disturbed(tmp_path: Path, layout: str) -> None:
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    folder = tmp_path / "journals"
    folder.mkdir()
    with RedisServer() as server:
        victims = Victim(server, folder, seed, layout)
        assert victims.suffer(SECONDS) == [0] * WORKERS
        judge(victims, seed, GIVEN)
        with locknut.connect(victims.url) as locks:
            deadline = time.monotonic() + 4 * TTL  # the holds of the killed run out
            while locks.list():
                assert time.monotonic() < deadline, f"left behind: {locks.list()}"
                time.sleep(0.05)
