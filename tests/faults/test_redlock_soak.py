"""The same processes on five masters: one at a time is stopped, cut off, emptied or swapped.

Nothing is excused here: one node that forgets everything must not let two in.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from locknut import redlock
from tests.faults.test_soak import SECONDS, WORKERS, Victims, judge
from tests.servers.mishaps import quarantine
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.simulation.checker import Assumptions

pytestmark = [pytest.mark.faults, pytest.mark.redis]
TTL = 2.0
QUARANTINE = quarantine(TTL)
"""Then the next one may fall."""


class Victim(Victims):
    """The workers, and the nodes."""

    def __init__(self, nodes: RedlockNodes, spare: RedisServer, folder: Path, seed: int):
        url = f"redlock://{nodes.hosts}?max_ttl={TTL:g}"
        redlock.begin(url)
        super().__init__(url, folder, seed, str(TTL))
        self._nodes = nodes.nodes
        self._spare = spare
        self._whole_again = 0.0

    def disturb(self) -> None:
        if self.chance.random() < 0.6 or time.monotonic() < self._whole_again:
            super().disturb()
            return
        node = self.chance.choice(self._nodes)
        deed = self.chance.choices(
            ["cut", "unload", "stand_still", "empty", "flush", "swap", "resync"],
            [4, 2, 3, 3, 2, 3, 3],
        )[0]
        self.deeds[deed] += 1
        if deed == "cut":
            node.client_kill()
        elif deed == "unload":
            node.script_flush()
        elif deed == "stand_still":
            node.stop()
            time.sleep(self.chance.random())  # the fault itself
            node.cont()
        else:
            getattr(self, f"_{deed}")(node)
            self._whole_again = time.monotonic() + QUARANTINE

    def _empty(self, node: RedisServer) -> None:
        node.restart(keep_data=False)

    def _flush(self, node: RedisServer) -> None:
        node.flushall()

    def _swap(self, node: RedisServer) -> None:
        """Another server, which has been up for long, has its address for a while. Nobody may speak
        with it after that: one address is one server, or it has two votes.
        """
        node.kill()
        self._spare.ask("CONFIG", "SET", "port", node.port)
        time.sleep(self.chance.random() * 2 * QUARANTINE)  # the fault itself
        node.ask("CONFIG", "SET", "port", self._spare.port)
        self._spare.client_kill()
        until(lambda: _clients(self._spare) == 1, "nobody but us speaks with it")
        self._spare.flushall()
        node.start()

    def _resync(self, node: RedisServer) -> None:
        """It follows another one for a moment, and has that one's data from then on."""
        node.ask("REPLICAOF", self._spare.host, self._spare.port)
        until(lambda: node.info("replication").get("master_link_status") == "up", "it is in step")
        node.ask("REPLICAOF", "NO", "ONE")


def _clients(server: RedisServer) -> int:
    told = server.ask("CLIENT", "LIST")
    assert isinstance(told, bytes)
    return len(told.splitlines())


@pytest.mark.timeout(SECONDS + 180)
@pytest.mark.slow
def test_clients_and_nodes_are_disturbed(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    folder = tmp_path / "journals"
    folder.mkdir()
    with RedlockNodes() as nodes, RedisServer() as spare:
        victims = Victim(nodes, spare, folder, seed)
        assert victims.suffer(SECONDS) == [0] * WORKERS
        judge(victims, seed, Assumptions())
