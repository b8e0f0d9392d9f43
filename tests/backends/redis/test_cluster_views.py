"""Nodes of a cluster that do not know its slots, or refuse us: only their own locks suffer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core.values import Granted, Renewal
from locknut.drivers.redis.cluster.hash_slots import SLOTS, SlotMap
from locknut.drivers.redis.cluster.views import NodeView, Survey, view
from locknut.drivers.redis.settings import read_hosts
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.loop import LoopRuntime
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
from tests.servers.cluster import Node, RedisCluster
from tests.servers.ports import Ports

pytestmark = [pytest.mark.redis, pytest.mark.faults]
COLOURS = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


def play(colour: str, story: Any) -> None:
    run(story) if colour == "blocking" else asyncio.run(story)


def lock_everywhere(colour: str, url: str, names: list[str]) -> None:
    """Each is there at once: whoever asked a node that knows nothing has asked another by then."""

    async def on_a_loop() -> None:
        async with aio.connect(url, namespace="t") as locks:
            for name in names:
                async with locks.lock(name, timeout=PATIENCE):
                    pass

    if colour == "asyncio":
        asyncio.run(on_a_loop())
        return
    with locknut.connect(url, namespace="t") as locks:
        for name in names:
            with locks.lock(name, timeout=PATIENCE):
                pass


# Which view is believed.


def seen(host: str, covered: int = SLOTS, *, well: bool = True, epoch: int = 7) -> NodeView:
    return NodeView((host, 1), [(0, covered - 1, (host, 1))] if covered else [], well, epoch)


SILENT = BackendUnavailable("no answer: nothing within 0.25 s")


def survey(*views: NodeView | BackendError) -> tuple[Survey, list[str]]:
    """Nodes that have these views, asked in this order as far as they are asked."""
    hosts = [each.address[0] if isinstance(each, NodeView) else "broken" for each in views]
    known = SlotMap(read_hosts(parse(f"redis://{':1,'.join(hosts)}:1")))
    made, asked = Survey(), []
    while (settings := made.next(known, {("suspect", 1)})) is not None:
        answer = views[hosts.index(settings.host)]
        asked.append(settings.host)
        if isinstance(answer, NodeView):
            made.add(answer)
        else:
            made.failed(settings, answer, silent=answer is SILENT)
    return made, asked


def test_two_nodes_that_are_well_are_enough() -> None:
    made, asked = survey(seen("a"), seen("b", epoch=8), seen("c", epoch=9))
    assert asked == ["a", "b"]
    assert made.best().address == ("b", 1)


@pytest.mark.parametrize(
    "poor",
    [seen("a", covered=0), seen("a", covered=9, epoch=3), seen("a", well=False, epoch=9)],
    ids=["empty", "partial", "cut off"],
)
def test_a_poor_view_is_not_believed(poor: NodeView) -> None:
    made, _ = survey(poor, seen("b"), seen("c"))
    assert made.best().address == ("b", 1)
    assert ("a", 1) in made.poor()


def test_where_nobody_is_well_the_best_that_is_known_has_to_do() -> None:
    made, asked = survey(seen("a", covered=5, well=False), seen("b", well=False))
    assert asked == ["a", "b"]
    assert made.best().address == ("b", 1)


def test_suspects_are_asked_when_nobody_else_knows() -> None:
    assert survey(seen("suspect"), seen("b"))[1] == ["b"]
    assert survey(seen("suspect"), seen("b", covered=0))[1] == ["b", "suspect"]


def test_who_was_silent_is_asked_once_more_if_nobody_knows() -> None:
    assert survey(SILENT, seen("b"))[1] == ["broken", "b"]
    made, asked = survey(SILENT, seen("b", covered=0))
    assert asked == ["broken", "b", "broken"]
    with pytest.raises(BackendUnavailable, match="nothing within"):
        made.best()


def test_who_answers_when_it_is_given_more_time_is_believed() -> None:
    known = SlotMap(read_hosts(parse("redis://a:1")))
    made = Survey()
    for answer in (SILENT, seen("a")):
        settings = made.next(known, set())
        assert settings is not None
        assert made.asked(settings) is isinstance(answer, NodeView)
        made.add(answer) if isinstance(answer, NodeView) else made.failed(
            settings, answer, silent=True
        )
    assert made.best().address == ("a", 1)
    assert not made.poor()


def test_a_refusal_is_told_only_if_nobody_answers() -> None:
    refused = BackendError("the server refused this user")
    assert survey(refused, seen("b"))[0].best().address == ("b", 1)
    with pytest.raises(BackendError, match="refused this user"):
        survey(refused, seen("b", covered=0))[0].best()
    with pytest.raises(BackendUnavailable, match="b:1 knows no slots"):
        survey(seen("b", covered=0))[0].best()


def test_a_view_where_more_must_not_be_known() -> None:
    slots = [[0, 9, [b"", 7001, b"id"]], [10, 19, [b"?", 7002, b"id"]]]
    assert view(("h", 7001), slots, None) == (("h", 7001), [(0, 9, ("h", 7001))], True, -1)


# Nodes with a poor view.


@COLOURS
def test_a_node_without_slots_comes_first_in_the_url(
    redis_cluster: RedisCluster, colour: str
) -> None:
    redis_cluster.wait_until_whole()
    names = list(names_on_every_node(redis_cluster).values())
    with Node() as empty:
        hosts = redis_cluster.url.removeprefix("redis+cluster://")
        lock_everywhere(colour, f"redis+cluster://{empty.host}:{empty.port},{hosts}", names)


def elected(cluster: RedisCluster, old: Node) -> Callable[[], bool]:
    def look() -> bool:
        nodes = [node for node in cluster.nodes if node.running]
        return not nodes[-1].is_replica and all(
            node.state()["cluster_state"] == "ok" for node in nodes if node is not old
        )

    return look


@pytest.mark.slow
def test_a_master_comes_back_without_its_bus() -> None:
    """It knows all slots as they were, and says CLUSTERDOWN to everything else."""
    with RedisCluster(replicas=1) as cluster:
        old = cluster.nodes[0]
        old.kill()
        eventually(elected(cluster, old), "no replica was elected")
        known = old.folder / "nodes.conf"
        ports = Ports()
        dead, old.bus = ports.reserve(2)
        known.write_text(re.sub(r"@\d+", f"@{dead}", known.read_text()))
        old.start()
        eventually(lambda: old.state()["cluster_state"] == "fail", "it is not cut off")
        slots = old.ask("CLUSTER", "SLOTS")
        assert isinstance(slots, list)
        assert len(slots) == 3, "it should know everything, as it was"
        names = [fresh() for _ in range(9)]
        for colour in ("blocking", "asyncio"):
            lock_everywhere(colour, cluster.url, names)
        ports.close()


@pytest.mark.slow
def test_the_node_of_slot_0_is_separated_from_those_who_hold_locks() -> None:
    with (
        RedisCluster(replicas=1) as cluster,
        locknut.connect(cluster.url, namespace="t") as locks,
    ):
        old, *others, replica = cluster.nodes
        names = names_of(cluster, [old, *others])
        held = {
            node: locks.lock(name, ttl=6).acquire(timeout=PATIENCE) for node, name in names.items()
        }
        old.wait_for_replicas(1, f"t:{{{names[old]}}}:mark")
        for node in (*others, replica):
            old.ask("CLUSTER", "FORGET", node.node_id)
        for node in others:
            node.ask("CLUSTER", "FORGET", old.node_id)
        replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
        replica.ask("CLUSTER", "FORGET", old.node_id)
        eventually(lambda: old.state()["cluster_state"] == "fail", "it is not cut off")
        for node, lease in held.items():
            assert lease is not None
            eventually(partial(renewed, lease), f"the slot of {node.port} is not found")
            lease.release()
        for colour in ("blocking", "asyncio"):
            lock_everywhere(colour, cluster.url, [fresh() for _ in range(9)])


def names_of(cluster: RedisCluster, masters: list[Node]) -> dict[Node, str]:
    found: dict[Node, str] = {}
    while len(found) < len(masters):
        name = fresh()
        found.setdefault(cluster.node_of(slot_named(name)), name)
    return found


def renewed(lease: locknut.Lease) -> bool:
    try:
        lease.renew()
    except BackendError:
        return False
    return True


# Nodes that refuse us.


@pytest.fixture
def guarded() -> Iterator[RedisCluster]:
    rules = "~* &* +@all"
    more = {"cluster-require-full-coverage": "no"}
    with RedisCluster(user="ann", password="s3cret", rules=rules, more=more) as cluster:
        yield cluster


@COLOURS
def test_a_node_that_refuses_us_is_its_own_locks_trouble(
    guarded: RedisCluster, colour: str
) -> None:
    """Its user is gone, as after a restart; renewals of the others go on in the same batch."""
    names = names_on_every_node(guarded)
    strict = guarded.nodes[0]  # has slot 0, so it is asked first who has which slot
    made = engine(guarded)

    async def story() -> None:
        port: Any = (
            made.blocking(ThreadRuntime()) if colour == "blocking" else made.asyncio(LoopRuntime())
        )
        claims = [claim(name) for name in names.values()]
        for each in claims:
            assert isinstance(await port.attempt(each, 0.0), Granted)
        strict.ask("ACL", "DELUSER", "ann")
        strict.client_kill()
        for _ in range(2):  # the second time the map is made new first
            answers = dict(zip(names, await port.renew(claims), strict=True))
            assert answers.pop(strict) is Renewal.UNKNOWN
            assert set(answers.values()) == {Renewal.HELD}
        await port.close()

    play(colour, story())
    others = [name for node, name in names.items() if node is not strict]
    for name in others:
        guarded.node_of(slot_named(name)).flushall()
    lock_everywhere(colour, guarded.url, others)


@COLOURS
def test_a_slot_that_nobody_has_is_its_own_locks_trouble(
    guarded: RedisCluster, colour: str
) -> None:
    names = list(names_on_every_node(guarded).values())
    gone = slot_named(names[0])
    made = engine(guarded)

    async def story() -> None:
        port: Any = (
            made.blocking(ThreadRuntime()) if colour == "blocking" else made.asyncio(LoopRuntime())
        )
        claims = [claim(name) for name in names]
        for each in claims:
            assert isinstance(await port.attempt(each, 0.0), Granted)
        for node in guarded.nodes:
            node.ask("CLUSTER", "DELSLOTS", gone)
        for _ in range(2):
            unknown, *others = await port.renew(claims)
            assert unknown is Renewal.UNKNOWN
            assert others == [Renewal.HELD] * 2
        for each in claims[1:]:
            await released(port, each)
        await port.close()

    play(colour, story())
