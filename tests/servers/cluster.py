"""A cluster of masters made by hand, which node serves what, and how a slot moves on."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any, Self

from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.resp import Word
from tests.servers.serving import Started

SLOTS = 16384
NODE_TIMEOUT = 1000
"""Milliseconds after which a silent node counts as failed."""


class Node(RedisServer):
    """One master; its bus has a free port too, for port + 10000 might be anybody's."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.bus = 0

    @property
    def node_id(self) -> bytes:
        told = self.ask("CLUSTER", "MYID")
        assert isinstance(told, bytes)
        return told

    @property
    def is_replica(self) -> bool:
        return self.info("replication")["role"] == "slave"

    def state(self) -> dict[str, str]:
        told = self.ask("CLUSTER", "INFO")
        assert isinstance(told, bytes)
        return dict(line.split(":") for line in told.decode().splitlines())

    def _choose_ports(self) -> None:
        self.port, self.bus = self._ports.reserve(2)

    def _command(self) -> list[str]:
        own = {
            "cluster-enabled": "yes",
            "cluster-config-file": "nodes.conf",
            "cluster-port": str(self.bus),
            "cluster-node-timeout": str(NODE_TIMEOUT),
            "cluster-announce-ip": self.host,
        }
        return super()._command() + [
            word for pair in own.items() for word in (f"--{pair[0]}", pair[1])
        ]


class RedisCluster(Started):
    """Three masters that share the slots evenly; replicas, if any, follow them in turn."""

    def __init__(self, *, masters: int = 3, replicas: int = 0, **settings: Any) -> None:
        self._masters = masters
        self.nodes = [Node(**settings) for _ in range(masters + replicas)]
        self._open = ExitStack()

    @property
    def url(self) -> str:
        hosts = ",".join(f"{node.host}:{node.port}" for node in self.nodes)
        login = self.nodes[0].url.removeprefix("redis://").rpartition("@")
        return f"redis+cluster://{login[0]}{login[1]}{hosts}"

    def start(self) -> Self:
        for node in self.nodes:
            self._open.callback(node.close)
            node.start()
        first, count = self.nodes[0], self._masters
        bounds = [SLOTS * index // count for index in range(count + 1)]
        for index, node in enumerate(self.nodes):
            if index < count:
                node.ask("CLUSTER", "ADDSLOTSRANGE", bounds[index], bounds[index + 1] - 1)
                node.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if node is not first:
                first.ask("CLUSTER", "MEET", node.host, node.port, node.bus)
        self.wait_until_whole()
        for index, replica in enumerate(self.nodes[count:]):
            self._follow(replica, self.nodes[index % count])
        return self

    def _follow(self, replica: Node, master: Node) -> None:
        wanted = master.node_id
        replica.ask("CLUSTER", "REPLICATE", wanted)
        until(lambda: replica.info("replication").get("master_link_status") == "up", "it follows")

    def slot_of(self, key: Word) -> int:
        slot = self.nodes[0].ask("CLUSTER", "KEYSLOT", key)
        assert isinstance(slot, int)
        return slot

    def node_of(self, slot: int) -> Node:
        """Who serves this slot, as the first node that runs sees it."""
        shards = next(node for node in self.nodes if node.running).ask("CLUSTER", "SLOTS")
        assert isinstance(shards, list)
        for shard in shards:
            match shard:
                case [int(low), int(high), [_, int(port), *_], *_] if low <= slot <= high:
                    return next(node for node in self.nodes if node.port == port)
        raise LookupError(f"nobody serves slot {slot}")

    def move(self, slot: int, target: Node) -> None:
        """Hand a slot with all its keys to another node, as resharding does."""
        self.begin_move(slot, target)
        self.move_keys(slot, target)
        self.end_move(slot, target)

    def begin_move(self, slot: int, target: Node) -> None:
        """From here on the old owner answers -ASK for keys of this slot that it has not."""
        source = self.node_of(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.node_id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.node_id)

    def move_keys(self, slot: int, target: Node) -> None:
        """All that are there now; from here on they are found at the target alone, after -ASK."""
        source = self.node_of(slot)
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10_000)
        assert isinstance(keys, list)
        if keys:
            names = [key for key in keys if isinstance(key, bytes)]
            source.ask("MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *names)

    def end_move(self, slot: int, target: Node) -> None:
        source = self.node_of(slot)
        others = [node for node in self.nodes if not node.is_replica]
        for node in (target, source, *others):  # the new owner first: then nobody is without
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.node_id)
        until(lambda: self.node_of(slot) is target, "the slot has moved")

    def promote(self, replica: Node) -> None:
        """Let a replica take over from its master, with its consent; it gives up after 5 s."""
        asked = float("-inf")

        def promoted() -> bool:
            nonlocal asked
            if not replica.is_replica:
                return True
            if time.monotonic() > asked + 6:
                asked = time.monotonic()
                replica.ask("CLUSTER", "FAILOVER")
            return False

        until(promoted, "the replica takes over")

    def wait_until_whole(self) -> None:
        """Every node runs and says that all slots are served."""
        for node in self.nodes:
            node.start()
        until(self._whole, "the cluster is whole")

    def close(self) -> None:
        self._open.close()

    def _whole(self) -> bool:
        states = [node.state() for node in self.nodes]
        expected = ("ok", str(SLOTS), str(len(self.nodes)))
        return all(
            (told["cluster_state"], told["cluster_slots_ok"], told["cluster_known_nodes"])
            == expected
            for told in states
        )
