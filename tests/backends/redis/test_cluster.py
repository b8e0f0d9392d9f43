"""A cluster: locks go where their slots go, also while they are held and waited for."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hiredis import ReplyError

import locknut
from locknut import aio
from locknut.backends.redis import lock_keys
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.cluster import aio as on_a_loop
from locknut.backends.redis.engine import ClusterEngine
from locknut.backends.redis.recipe import Recipe
from locknut.core.values import Busy, Granted, Renewal
from locknut.drivers.redis import wire
from locknut.drivers.redis.cluster.hash_slots import key_of, redirect, slot_of
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.runtimes.clock import now
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.redis.conftest import PATIENCE, claim, eventually, somebody_waits
from tests.servers.cluster import Node, RedisCluster

pytestmark = [pytest.mark.redis, pytest.mark.faults]


@pytest.fixture
def cluster(redis_cluster: RedisCluster) -> Iterator[RedisCluster]:
    redis_cluster.wait_until_whole()
    yield redis_cluster
    redis_cluster.wait_until_whole()


def engine(cluster: RedisCluster, options: str = "") -> ClusterEngine:
    found = open_engine(f"{cluster.url}{options}")[0]
    assert isinstance(found, ClusterEngine)
    return found


def fresh(name: str = "x") -> str:
    return f"{name}-{secrets.token_hex(4)}"


def slot_named(name: str) -> int:
    return slot_of(lock_keys.hold_key(f"t:{name}", permits=False))


def another(cluster: RedisCluster, slot: int) -> Node:
    return next(node for node in cluster.nodes if node is not cluster.node_of(slot))


def serves(cluster: RedisCluster, slot: int, node: Node) -> bool:
    """For a moment of a failover nobody does."""
    with suppress(LookupError):
        return cluster.node_of(slot) is node
    return False


# Slots.


@pytest.mark.parametrize(
    "key", [b"a", b"{a}b", b"b{a}", b"{}a", b"{a", b"}{", b"a{b}{c}", b"{ \r\n}x"]
)
def test_slots_are_counted_as_the_server_does(redis_cluster: RedisCluster, key: bytes) -> None:
    assert slot_of(key) == redis_cluster.slot_of(key)


@pytest.mark.parametrize("name", ["x", "with\r\nlines", "{braces}", "x" * 2000])
def test_the_key_of_a_command(name: str) -> None:
    mine = claim(name)
    hold = lock_keys.hold_key(mine.key, permits=False)
    recipe = Recipe()
    assert key_of(recipe.acquire(mine, b"$2\r\nl0\r\n")) == hold
    assert key_of(recipe.release(mine, outcome_unknown=False)) == hold
    assert key_of(wire.pack(b"BLPOP", recipe.inbox(mine, 0), b"1")) == recipe.inbox(mine, 0)
    assert key_of(wire.pack(b"SSUBSCRIBE", hold)) == hold
    assert key_of(wire.pack(b"SCRIPT", b"LOAD", b"return 1")) is None


def test_where_a_node_points() -> None:
    said = ReplyError("MOVED 7 ::1:7001"), ReplyError("ASK 7 :7002")
    assert redirect(said[0], "h") == (True, 7, ("::1", 7001))
    assert redirect(said[1], "h") == (False, 7, ("h", 7002))
    assert redirect(ReplyError("ERR MOVED"), "h") is None
    assert redirect(7, "h") is None


@pytest.mark.parametrize(
    ("url", "named"),
    [("redis+cluster://h/1", "databases"), ("redis+cluster://h?colour=red", "colour")],
)
def test_what_is_refused(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        locknut.connect(url)


def test_a_node_that_is_taken_for_a_server_says_what_it_is(cluster: RedisCluster) -> None:
    with locknut.connect(cluster.nodes[0].url, namespace="t") as locks:
        names = (fresh() for _ in range(100))
        name = next(each for each in names if cluster.node_of(slot_named(each)) is cluster.nodes[1])
        with pytest.raises(BackendError, match=r"redis\+cluster://"):
            locks.lock(name).acquire(timeout=0)


# Slots that move.


def test_a_slot_moves_while_its_lock_is_held_and_waited_for(cluster: RedisCluster) -> None:
    name = fresh()
    slot = slot_named(name)
    with (
        locknut.connect(cluster.url, namespace="t") as one,
        locknut.connect(cluster.url, namespace="t") as two,
    ):
        lease = one.lock(name, ttl=20).acquire()
        assert lease is not None
        cluster.move(slot, another(cluster, slot))
        lease.renew()
        got: list[Any] = []
        waiter = threading.Thread(target=lambda: got.append(two.lock(name).acquire()))
        waiter.start()
        eventually(lambda: one.info(name).waiters, "nobody waits")
        cluster.move(slot, another(cluster, slot))
        lease.renew()
        assert one.info(name).waiters
        lease.release()
        waiter.join(PATIENCE)
        assert got[0].fence > lease.fence
        got[0].release()


def test_a_slot_moves_under_a_loop(cluster: RedisCluster) -> None:
    async def story() -> None:
        name = fresh()
        slot = slot_named(name)
        async with (
            aio.connect(cluster.url, namespace="t") as one,
            aio.connect(cluster.url, namespace="t") as two,
        ):
            lease = await one.lock(name, ttl=20).acquire()
            assert lease is not None
            await asyncio.to_thread(cluster.move, slot, another(cluster, slot))
            await lease.renew()
            waiter = asyncio.create_task(two.lock(name).acquire())
            await somebody_waits(one, name)
            await asyncio.to_thread(cluster.move, slot, another(cluster, slot))
            await lease.renew()
            await lease.release()
            async with asyncio.timeout(PATIENCE):
                got = await waiter
            assert got is not None
            assert got.fence > lease.fence
            await got.release()

    asyncio.run(story())


def test_half_moved_keys_are_asked_for_again(cluster: RedisCluster) -> None:
    """Neither node may run a script then (TRYAGAIN): nobody is told no, and nobody is let in. Only
    a renewal names just one key, so it is done where that is.
    """
    name = fresh()
    slot = slot_named(name)
    target = another(cluster, slot)
    port, mine, other = engine(cluster).blocking(ThreadRuntime()), claim(name), claim(name)
    assert isinstance(run(port.attempt(mine, 0.0)), Granted)
    cluster.begin_move(slot, target)
    with pytest.raises(BackendUnavailable):
        run(port.attempt(other, 0.0))
    assert run(port.renew([mine])) == [Renewal.HELD]
    with pytest.raises(BackendUnavailable):
        run(port.release(mine))
    cluster.move_keys(slot, target)
    cluster.end_move(slot, target)
    assert run(port.renew([mine])) == [Renewal.HELD]
    assert isinstance(run(port.attempt(other, 0.0)), Busy)
    assert run(port.release(mine))
    assert run(port.renew([other])) == [Renewal.HELD]
    assert run(port.release(other))
    run(port.close())


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_renewals_work_in_all_stages_of_a_move(
    cluster: RedisCluster, colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However long it takes, as with millions of other keys in the slot: a plain lease survives."""
    name = fresh()
    slot = slot_named(name)
    source, target = cluster.node_of(slot), another(cluster, slot)
    hold = lock_keys.hold_key(f"t:{name}", permits=False)

    async def story() -> None:
        port: Any = (
            engine(cluster).blocking(ThreadRuntime())
            if colour == "blocking"
            else engine(cluster).asyncio(LoopRuntime())
        )
        mine, detached = claim(name), claim(name)
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        target.script_flush()
        cluster.begin_move(slot, target)
        assert await port.renew([mine]) == [Renewal.HELD], "nothing has moved"
        assert await port.inspect_all("t:") == []
        assert "1 locks could not be listed" in caplog.text
        for key in (hold + b":fence", hold):
            source.ask("MIGRATE", target.host, target.port, key, 0, 5000)
            assert await port.renew([mine]) == [Renewal.HELD], f"{key!r} has moved"
        assert await port.detach(mine, 20.0)
        assert await port.renew([detached]) in ([Renewal.UNKNOWN], [Renewal.LOST])
        cluster.end_move(slot, target)
        assert await port.renew([mine]) == [Renewal.HELD]
        assert await port.renew([detached]) == [Renewal.LOST]
        assert await port.release(mine)
        await port.close()

    run(story()) if colour == "blocking" else asyncio.run(story())


@pytest.mark.slow
def test_what_other_nodes_know_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    with (
        RedisCluster(more={"cluster-require-full-coverage": "no"}) as cluster,
        locknut.connect(cluster.url, namespace="t") as locks,
    ):
        names = names_on_every_node(cluster)
        leases = [locks.lock(name, ttl=60).acquire() for name in names.values()]
        assert None not in leases
        gone = cluster.nodes[2]
        gone.kill()
        expected = {name for node, name in names.items() if node is not gone}
        assert {each.name for each in locks.list()} == expected
        assert "the locks of one node are not listed" in caplog.text
        gone.start()


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_keys_that_are_there_before_their_slot_are_asked_for(
    cluster: RedisCluster, colour: str
) -> None:
    """-ASK, to a node that does not know the scripts either."""
    name = fresh()
    slot = slot_named(name)
    target = another(cluster, slot)

    async def story() -> None:
        port = (
            engine(cluster).blocking(ThreadRuntime())
            if colour == "blocking"
            else engine(cluster).asyncio(LoopRuntime())
        )
        mine, other = claim(name), claim(name)
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        assert isinstance(await port.attempt(other, 0.0), Busy)  # now it has all its keys
        cluster.begin_move(slot, target)
        cluster.move_keys(slot, target)
        target.script_flush()
        assert await port.renew([mine]) == [Renewal.HELD]
        target.script_flush()
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        cluster.end_move(slot, target)
        assert await port.release(mine)
        assert await port.renew([other]) == [Renewal.HELD]
        assert await port.release(other)
        await port.close()

    run(story()) if colour == "blocking" else asyncio.run(story())


@pytest.mark.parametrize("outcome_unknown", [False, True])
def test_a_release_in_the_middle_of_a_move_is_not_forgotten(
    cluster: RedisCluster, outcome_unknown: bool
) -> None:
    """All keys are still at the source, but a script that removes one cannot put it back there. A
    plain release removes none that it needs; the message of its grant is lost on the way.
    """
    name = fresh()
    slot = slot_named(name)
    target = another(cluster, slot)
    port, mine, other = engine(cluster).blocking(ThreadRuntime()), claim(name), claim(name)
    assert isinstance(run(port.attempt(mine, 0.0)), Granted)
    assert isinstance(run(port.attempt(other, 0.0)), Busy)
    cluster.begin_move(slot, target)
    if outcome_unknown:
        with pytest.raises(BackendUnavailable):
            run(port.release(mine, outcome_unknown=True))
    else:
        with suppress(BackendUnavailable):  # a script may need a key that has no place there
            assert run(port.release(mine))
    cluster.move(slot, target)
    run(port.release(mine, outcome_unknown=outcome_unknown))
    granted = run(port.attempt(other, 0.0))
    assert isinstance(granted, Granted)
    assert run(port.renew([mine, other])) == [Renewal.LOST, Renewal.HELD]
    assert run(port.release(other))
    run(port.close())


# Grants.


def hand_over(port: RedisBackend, name: str) -> Any:
    async def story() -> Granted:
        signal = LoopRuntime().signal
        mine, other = claim(name), claim(name)
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        assert isinstance(await port.attempt(other, 0.0), Busy)
        with port.watch(other, signal) as rung:
            answer = await port.attempt(other, 0.0)
            assert isinstance(answer, Busy)
            assert await port.release(mine)
            assert await rung.wait(now() + PATIENCE)
            granted = await port.attempt(other, 0.0)
        assert isinstance(granted, Granted)
        assert await port.release(other)
        await port.close()
        return granted

    return asyncio.run(story())


def test_a_grant_is_pushed_in_the_locks_own_slot(cluster: RedisCluster) -> None:
    granted = hand_over(engine(cluster).asyncio(LoopRuntime()), fresh())
    assert granted.anchor is not None


def test_where_there_are_no_shards_a_message_only_rings() -> None:
    """As before 7.0: it came through the cluster, and nobody knows when it was sent."""
    rules = "~* &* +@all -ssubscribe -spublish"
    with RedisCluster(masters=1, user="ann", password="s3cret", rules=rules) as cluster:
        granted = hand_over(engine(cluster).asyncio(LoopRuntime()), fresh())
        assert granted.anchor is None


def test_who_waits_listens_where_the_slot_is(cluster: RedisCluster) -> None:
    """From the first question after the move on, not only from the next one, a second later."""
    name = fresh()
    slot = slot_named(name)

    async def story() -> None:
        port = engine(cluster).asyncio(LoopRuntime())
        mine, other = claim(name), claim(name)
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        assert isinstance(await port.attempt(other, 0.0), Busy)
        with port.watch(other, LoopRuntime().signal) as rung:
            assert isinstance(await port.attempt(other, 0.0), Busy)
            cluster.move(slot, another(cluster, slot))
            assert isinstance(await port.attempt(other, 0.0), Busy)
            while await rung.wait(now()):
                pass  # that the slot has left
            assert await port.release(mine)
            assert await rung.wait(now() + PATIENCE)
            granted = await port.attempt(other, 0.0)
        assert isinstance(granted, Granted)
        assert granted.anchor is not None, "it was not pushed"
        assert await port.release(other)
        await port.close()

    asyncio.run(story())


def test_channels_that_nobody_needs_are_left(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_a_loop, "MOST_CHANNELS", 3)

    async def story() -> None:
        port: Any = engine(cluster).asyncio(LoopRuntime())
        names = [f"{{same}}{each}" for each in range(8)]  # the tag is the name: not one slot
        for name in names:
            mine, other = claim(name), claim(name)
            await port.attempt(mine, 0.0)
            await port.attempt(other, 0.0)
            await port.attempt(other, 0.0)
            await port.release(other)
            await port.release(mine)
        links = port._server.links._links.values()
        assert all(len(link.stream.listening) <= 3 for link in links if link.stream)
        await port.close()

    asyncio.run(story())
    eventually(lambda: not channels(cluster), "channels were left behind")


def channels(cluster: RedisCluster) -> list[Any]:
    return [each for node in cluster.nodes for each in node.ask("PUBSUB", "SHARDCHANNELS")]  # type: ignore[union-attr]


# Many nodes.


def names_on_every_node(cluster: RedisCluster) -> dict[Node, str]:
    found: dict[Node, str] = {}
    while len(found) < len(cluster.nodes):
        name = fresh()
        found.setdefault(cluster.node_of(slot_named(name)), name)
    return found


def test_all_masters_are_listed(cluster: RedisCluster) -> None:
    names = set(names_on_every_node(cluster).values())

    async def story() -> None:
        async with aio.connect(cluster.url, namespace="t") as locks:
            assert {each.name for each in await locks.list()} == names

    with locknut.connect(cluster.url, namespace="t") as locks:
        leases = [locks.lock(name).acquire() for name in names]
        assert {each.name for each in locks.list()} == names
        asyncio.run(story())
        for lease in leases:
            assert lease is not None
            lease.release()


def test_renewals_go_to_all_nodes_at_once(
    cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port: Any = engine(cluster).blocking(ThreadRuntime())
    claims = [claim(fresh()) for _ in range(30)]
    for each in claims:
        run(port.attempt(each, 0.0))
    rounds: list[int] = []
    send = type(port._server._pools)._together

    async def counted(pools: Any, sent: Any) -> Any:
        rounds.append(len(sent))
        return await send(pools, sent)

    monkeypatch.setattr(type(port._server._pools), "_together", counted)
    run(port.renew(claims))  # the scripts may have to be loaded
    rounds.clear()
    assert run(port.renew(claims)) == [Renewal.HELD] * 30
    assert rounds == [3]
    for each in claims:
        run(port.release(each))
    run(port.close())


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
@pytest.mark.slow
def test_a_silent_node_is_its_own_locks_trouble(colour: str) -> None:
    more = {"cluster-require-full-coverage": "no"}
    with RedisCluster(more=more) as cluster:
        names = names_on_every_node(cluster)
        silent = cluster.nodes[1]
        made = engine(cluster, "?socket_timeout=2")

        async def story() -> None:
            port: RedisBackend
            port = (
                made.blocking(ThreadRuntime())
                if colour == "blocking"
                else made.asyncio(LoopRuntime())
            )
            claims = [claim(name) for name in names.values()]
            for each in claims:
                assert isinstance(await port.attempt(each, 0.0), Granted)
            assert await port.renew(claims) == [Renewal.HELD] * 3
            silent.stop()
            answers = dict(zip(names, await port.renew(claims), strict=True))
            assert answers.pop(silent) is Renewal.UNKNOWN
            assert set(answers.values()) == {Renewal.HELD}
            silent.cont()
            for each in claims:
                await released(port, each)
            await port.close()

        run(story()) if colour == "blocking" else asyncio.run(story())


async def released(port: Any, each: Any) -> None:
    give_up = now() + PATIENCE
    while True:
        try:
            await port.release(each)
        except BackendUnavailable:
            assert now() < give_up
        else:
            return


@pytest.fixture(scope="module")
def replicated() -> Iterator[RedisCluster]:
    with RedisCluster(replicas=3) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_killed_master_is_replaced(replicated: RedisCluster) -> None:
    with (
        locknut.connect(replicated.url, namespace="t") as one,
        locknut.connect(replicated.url, namespace="t") as two,
    ):
        name = fresh()
        lease = one.lock(name, ttl=30).acquire()
        assert lease is not None
        got: list[Any] = []

        def wait() -> None:
            while not got:
                try:
                    got.append(two.lock(name).acquire())
                except BackendUnavailable:
                    continue  # a failover may take longer than the patience with an outage

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: one.info(name).waiters, "nobody waits")
        kill_the_master_of(name, replicated)
        eventually(lambda: renewed(lease), "the promoted replica was not found")
        lease.release()
        waiter.join(PATIENCE)
        assert got[0].fence > lease.fence
        got[0].release()
    replicated.wait_until_whole()


def kill_the_master_of(name: str, cluster: RedisCluster) -> None:
    """Once its replica has all that there is."""
    master = cluster.node_of(slot_named(name))
    master.wait_for_replicas(1, f"t:{{{name}}}:mark")
    master.kill()


def renewed(lease: locknut.Lease) -> bool:
    try:
        lease.renew()
    except BackendError:
        return False
    return True


def test_a_killed_master_is_replaced_under_a_loop(replicated: RedisCluster) -> None:
    async def waits(locks: aio.Locks, name: str) -> aio.Lease:
        while True:
            try:
                got = await locks.lock(name).acquire()
            except BackendUnavailable:
                continue
            assert got is not None
            return got

    async def story() -> None:
        name = fresh()
        async with (
            aio.connect(replicated.url, namespace="t") as one,
            aio.connect(replicated.url, namespace="t") as two,
        ):
            lease = await one.lock(name, ttl=30).acquire()
            assert lease is not None
            waiter = asyncio.create_task(waits(two, name))
            await somebody_waits(one, name)
            await asyncio.to_thread(kill_the_master_of, name, replicated)
            async with asyncio.timeout(PATIENCE):
                while not await renewed_soon(lease):  # noqa: ASYNC110  # a cluster has no event for it
                    await asyncio.sleep(0.05)
                await lease.release()
                got = await waiter
            assert got.fence > lease.fence
            await got.release()

    replicated.wait_until_whole()
    asyncio.run(story())


async def renewed_soon(lease: aio.Lease) -> bool:
    try:
        await lease.renew()
    except BackendError:
        return False
    return True


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_replicas_confirm_for_their_own_node(replicated: RedisCluster, colour: str) -> None:
    replicated.wait_until_whole()
    masters = [node for node in replicated.nodes if not node.is_replica]
    names: dict[Node, str] = {}
    while len(names) < len(masters):
        name = fresh()
        names.setdefault(replicated.node_of(slot_named(name)), name)
    eventually(lambda: all(each.ask("WAIT", 1, 100) == 1 for each in masters), "not replicated")
    (lagging,) = [
        each
        for each in replicated.nodes
        if each.info("replication").get("master_port") == str(masters[0].port)
    ]
    made = engine(replicated, "?wait_replicas=1&wait_timeout=2&socket_timeout=5")

    async def story() -> None:
        port: RedisBackend
        port = (
            made.blocking(ThreadRuntime()) if colour == "blocking" else made.asyncio(LoopRuntime())
        )
        claims = [claim(name) for name in names.values()]
        for each in claims:
            assert isinstance(await port.attempt(each, 0.0), Granted)
        assert await port.renew(claims) == [Renewal.HELD] * 3
        lagging.stop()
        try:
            answers = dict(zip(names, await port.renew(claims), strict=True))
        finally:
            lagging.cont()
        assert answers.pop(masters[0]) is Renewal.UNKNOWN
        assert set(answers.values()) == {Renewal.HELD}
        for each in claims:
            await released(port, each)
        await port.close()

    run(story()) if colour == "blocking" else asyncio.run(story())


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_a_planned_failover_is_followed_though_replicas_are_waited_for(
    replicated: RedisCluster, colour: str
) -> None:
    """The old master says MOVED, and then that WAIT is not for replicas: the former counts."""
    replicated.wait_until_whole()
    mine = claim(fresh())
    slot = slot_of(lock_keys.hold_key(mine.key, permits=False))
    old = replicated.node_of(slot)
    (replica,) = [
        each
        for each in replicated.nodes
        if each.info("replication").get("master_port") == str(old.port)
    ]
    made = engine(replicated, "?wait_replicas=1&wait_timeout=5&socket_timeout=10")

    async def story() -> None:
        port: RedisBackend
        port = (
            made.blocking(ThreadRuntime()) if colour == "blocking" else made.asyncio(LoopRuntime())
        )
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        replicated.promote(replica)
        eventually(lambda: serves(replicated, slot, replica), "no failover")
        eventually(lambda: old.is_replica, "it goes on")
        eventually(
            lambda: old.info("replication").get("master_link_status") == "up", "it does not follow"
        )
        give_up = now() + PATIENCE
        while await port.renew([mine]) != [Renewal.HELD]:  # a busy replica may confirm late
            assert now() < give_up, "the new master is not found"
        assert await port.release(mine)
        await port.close()

    run(story()) if colour == "blocking" else asyncio.run(story())


# Several at once, and what is broken.


def test_all_goes_over_several_nodes_in_turn_and_comes_back_together(cluster: RedisCluster) -> None:
    names = [fresh() for _ in range(4)]
    with locknut.connect(cluster.url, namespace="t") as locks:
        with locks.all(*names) as leases:
            assert len(leases.fences) == 4
            port = engine(cluster).blocking(ThreadRuntime())
            assert run(port.attempt_all([claim(name) for name in names])) is None
            assert isinstance(run(port.attempt_all([claim(names[0])])), Busy)
            run(port.close())
        assert not [each for each in locks.list() if each.name in names]


def test_a_broken_hold_is_told_by_the_renewal_that_says_lost(cluster: RedisCluster) -> None:
    """The note lies in the lock's own slot, so the script that renews may read it."""
    with locknut.connect(cluster.url, namespace="t") as locks:
        for _ in range(4):  # on several nodes
            name = fresh()
            lease = locks.lock(name, ttl=30_000).acquire()
            assert lease is not None
            assert locks.force_release(name, reason="stuck")
            with pytest.raises(locknut.LeaseLost, match="broken: stuck"):
                lease.renew()


def test_a_broken_hold_is_told_to_its_loop(cluster: RedisCluster) -> None:
    async def story() -> None:
        async with aio.connect(cluster.url, namespace="t") as locks:
            for _ in range(4):  # on several nodes
                name = fresh()
                lease = await locks.lock(name, ttl=30_000).acquire()
                assert lease is not None
                with locknut.connect(cluster.url, namespace="t") as operator:
                    assert operator.force_release(name, reason="stuck")
                assert await lease.lost.wait(PATIENCE)
                assert lease.reason == "broken: stuck"

    asyncio.run(story())
