"""One node of a cluster that freezes, or whose replica is gone: the others' locks do not notice."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.redis import backend
from locknut.core.values import Granted, Renewal, State
from locknut.drivers.redis.cluster.silence import Silence
from locknut.drivers.redis.connections import BlockingDial
from locknut.drivers.redis.settings import read
from locknut.errors import BackendUnavailable
from locknut.runtimes.clock import now
from locknut.runtimes.deadlines import within
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import parse
from tests.backends.redis.conftest import PATIENCE, claim, eventually
from tests.backends.redis.test_cluster import (
    engine,
    fresh,
    names_on_every_node,
    released,
    slot_named,
)
from tests.servers.certificates import Certificates
from tests.servers.cluster import RedisCluster
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
ROUNDS = 10


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisCluster]:
    more = {"cluster-require-full-coverage": "no", "cluster-node-timeout": "60000"}
    with RedisCluster(more=more) as cluster:
        yield cluster


def over(silence: Silence) -> bool:
    try:
        silence.ensure_over()
    except BackendUnavailable:
        return False
    return True


@pytest.mark.parametrize("encrypted", [False, True])
def test_silence_ends_with_any_word(
    redis_server: RedisServer,
    redis_tls_server: RedisServer,
    certificates: Certificates,
    encrypted: bool,
) -> None:
    server = redis_tls_server if encrypted else redis_server
    silence = Silence(
        read(parse(f"{server.url}{'&' if '?' in server.url else '?'}socket_timeout=0.2"))
    )
    assert over(silence), "it has not begun"
    server.stop()
    try:
        silence.begin()
        give_up = time.monotonic() + 0.5  # by then it has asked more than once
        while time.monotonic() < give_up:
            assert not over(silence)
    finally:
        server.cont()
    eventually(lambda: over(silence), "it answers, and nobody noticed")
    silence.end()


def test_silence_ends_where_nobody_listens_any_more(free_port: int) -> None:
    silence = Silence(read(parse(f"redis://127.0.0.1:{free_port}")))
    silence.begin()
    eventually(lambda: over(silence), "a refusal is an answer too")


@pytest.mark.slow
def test_a_frozen_node_costs_its_time_limit_once(shared: RedisCluster) -> None:
    """The keeper is a thread in both colours, and speaks to all nodes."""
    names = names_on_every_node(shared)
    frozen = shared.nodes[1]
    port = engine(shared, "?socket_timeout=1").blocking(ThreadRuntime())
    claims = [claim(name) for name in names.values()]
    for each in claims:
        assert isinstance(run(port.attempt(each, 0.0)), Granted)
    assert run(port.renew(claims)) == [Renewal.HELD] * 3
    frozen.stop()
    try:
        begun = time.monotonic()
        for _ in range(ROUNDS):
            answers = dict(zip(names, run(port.renew(claims)), strict=True))
            assert answers.pop(frozen) is Renewal.UNKNOWN
            assert set(answers.values()) == {Renewal.HELD}
        assert time.monotonic() - begun < ROUNDS / 2, "each one paid for the frozen node"
    finally:
        frozen.cont()
    for each in claims:
        run(released(port, each))
    run(port.close())


def test_a_frozen_seed_leaves_the_others_some_of_a_short_time(shared: RedisCluster) -> None:
    """Who is asked first for the slots may be silent: the caller has less time than that costs."""
    cluster: Any = engine(shared, "?socket_timeout=20")._cluster
    shared.nodes[0].stop()
    try:
        run(within(cluster.refresh(BlockingDial()), now() + 2))
        assert len(cluster.map.masters()) == 3
        assert cluster.map.to_ask(cluster._suspects)[-1].port == shared.nodes[0].port
    finally:
        shared.nodes[0].cont()


def test_nobody_waits_longer_than_it_can_for_anothers_look_at_the_slots(
    shared: RedisCluster,
) -> None:
    port: Any = engine(shared).blocking(ThreadRuntime())
    looking, over = threading.Event(), threading.Event()

    def look() -> None:
        with port._server._pools._mutex:
            looking.set()
            over.wait(5)

    other = threading.Thread(target=look)
    other.start()
    assert looking.wait(PATIENCE)
    begun = now()
    with pytest.raises(BackendUnavailable):
        run(within(port.inspect("t:y"), begun + 0.3))
    assert now() - begun < 3
    over.set()
    other.join(PATIENCE)
    run(port.close())


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_closing_gives_back_what_the_other_nodes_have(shared: RedisCluster, colour: str) -> None:
    """In the patience that is spent on a frozen node; and no node knows the script yet."""
    frozen = shared.nodes[1]
    others = [node for node in shared.nodes if node is not frozen]
    names = [fresh() for _ in range(60)]

    def freeze() -> float:
        for node in shared.nodes:
            node.script_flush()
        assert held_at(others) > 20
        frozen.stop()
        return now()

    async def on_a_loop() -> float:
        locks = aio.connect(shared.url, namespace="t")
        leases = [await locks.lock(name, ttl=60).acquire(timeout=PATIENCE) for name in names]
        begun = freeze()
        await locks.close()
        assert all(leases)
        return now() - begun

    def in_a_thread() -> float:
        locks = locknut.connect(shared.url, namespace="t")
        leases = [locks.lock(name, ttl=60).acquire(timeout=PATIENCE) for name in names]
        begun = freeze()
        locks.close()
        assert all(leases)
        return now() - begun

    try:
        took = in_a_thread() if colour == "blocking" else asyncio.run(on_a_loop())
        assert took < 3.4
        assert held_at(others) == 0, "holds of healthy nodes were left"
    finally:
        frozen.cont()
        frozen.flushall()


def held_at(nodes: Sequence[RedisServer]) -> int:
    found: list[Any] = [each for node in nodes for each in node.ask("KEYS", "t:*")]  # type: ignore[union-attr]
    return sum(each.endswith(b"}") for each in found)


@pytest.mark.slow
def test_many_leases_outlive_a_frozen_node(
    shared: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are renewed in many batches, each with some of the frozen node among them."""
    monkeypatch.setattr(backend, "BATCH", 10)
    frozen = shared.nodes[1]
    with locknut.connect(f"{shared.url}?socket_timeout=1", namespace="t") as locks:
        leases = []
        for _ in range(90):
            name = fresh()
            lease = locks.lock(name, ttl=5).acquire(timeout=PATIENCE)
            assert lease is not None
            leases.append((shared.node_of(slot_named(name)), lease))
        frozen.stop()
        try:
            stuck = [lease for node, lease in leases if node is frozen]
            for lease in stuck:
                assert lease.lost.wait(PATIENCE)
            kept = [lease.state for node, lease in leases if node is not frozen]
            assert State.LOST not in kept, [
                (lease.reason, shared.nodes.index(node))
                for node, lease in leases
                if node is not frozen and lease.state is State.LOST
            ]
        finally:
            frozen.cont()
        for _, lease in leases:
            if lease.held:
                lease.release()


@pytest.fixture(scope="module")
def followed() -> Iterator[RedisCluster]:
    with RedisCluster(replicas=3) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_missing_replica_does_not_hold_up_the_others(followed: RedisCluster) -> None:
    """Its node takes `wait_timeout` for every question, so it is not asked all the time."""
    masters = [node for node in followed.nodes if not node.is_replica]
    names: dict[Any, str] = {}
    while len(names) < len(masters):
        name = fresh()
        names.setdefault(followed.node_of(slot_named(name)), name)
    (lagging,) = [
        each
        for each in followed.nodes
        if each.info("replication").get("master_port") == str(masters[0].port)
    ]
    port = engine(followed, "?wait_replicas=1&wait_timeout=1&socket_timeout=5").blocking(
        ThreadRuntime()
    )
    claims = [claim(name) for name in names.values()]
    for each in claims:
        eventually(partial(granted, port, each), "replicas do not confirm")
    lagging.stop()
    try:
        begun = time.monotonic()
        for _ in range(ROUNDS):
            answers = dict(zip(names, run(port.renew(claims)), strict=True))
            assert answers.pop(masters[0]) is Renewal.UNKNOWN
            assert set(answers.values()) == {Renewal.HELD}
        assert time.monotonic() - begun < ROUNDS / 2, "each one waited for the replica"
    finally:
        lagging.cont()
    eventually(lambda: run(port.renew(claims)) == [Renewal.HELD] * 3, "it is back")
    for each in claims:
        run(released(port, each))
    run(port.close())


def granted(port: Any, each: Any) -> bool:
    try:
        return isinstance(run(port.attempt(each, 0.0)), Granted)
    except BackendUnavailable:
        return False
