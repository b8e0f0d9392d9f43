"""Least privilege: what the documentation gives is enough, and nothing of it is too much."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core.values import Busy, Granted, Mode
from locknut.errors import BackendError
from locknut.runtimes import clock
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.redis.conftest import PATIENCE, claim
from tests.backends.redis.permissions import commands, documented, documented_for_a_cluster
from tests.servers.cluster import RedisCluster
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SentinelService

pytestmark = pytest.mark.redis
SENT = (
    "evalsha", "script|load", "blpop", "subscribe", "scan", "info", "select",
    "cluster|slots", "cluster|info", "asking", "ssubscribe", "sunsubscribe",
)  # fmt: skip
"""What is not called by a script."""
ON_A_CLUSTER = {
    "+cluster|slots", "+cluster|info", "+asking", "+ssubscribe", "+sunsubscribe", "+spublish",
}  # fmt: skip
TOLERATED = {"+info"}
"""Asked for, and not needed."""


@pytest.fixture(scope="module", params=["redis", "valkey"])
def guarded(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    rules = documented("t")
    with RedisServer(flavour=request.param, user="locks", password="s3cret", rules=rules) as server:
        yield server


def exercise(url: str) -> None:
    """Every verb once, in both colours, on both ways through the scripts."""
    port: Any = open_engine(url)[0].blocking(ThreadRuntime())
    try:
        run(verbs(port))
        waits_in_an_inbox(port)
    finally:
        run(port.close())
    asyncio.run(waits_on_a_channel(url))
    with locknut.connect(url, namespace="t") as locks:
        assert [each.name for each in locks.list()] == []


async def verbs(port: Any) -> None:
    alone, detached, heir = claim(), claim(), claim()
    assert isinstance(await port.attempt(alone, 0.0), Granted)
    assert isinstance(await port.attempt(alone, 0.0), Granted)
    assert await port.renew([alone])
    assert await port.downgrade(alone)
    assert await port.renew([alone])
    assert await port.release(alone._replace(mode=Mode.SHARED), outcome_unknown=True)
    assert isinstance(await port.attempt(detached, 0.0), Granted)
    assert await port.detach(detached, 5.0)
    assert await port.attach(detached, heir)
    assert (await port.inspect(heir.key))[0].holders
    assert await port.break_hold(heir.key, None)
    for several in (
        [claim(mode=Mode.SHARED), claim(mode=Mode.SHARED)],
        [claim(owner="ann"), claim(owner="ann")],
        [claim("p", mode=Mode.PERMIT, permits=2), claim("p", mode=Mode.PERMIT, permits=2)],
    ):
        for each in several:
            assert isinstance(await port.attempt(each, 0.0), Granted)
        assert await port.release_all(several) == [True, True]
    await port.write_history("t:history:routine", ["x"], 5)
    assert (await port.read_history("t:history:routine", 5.0)).texts
    await port.write_history("t:history:routine", [], 0)
    both = [claim("a"), claim("b")]
    if await port.attempt_all(both) is not None:  # in two slots of a cluster, say
        assert await port.release_all(both) == [True, True]


def waits_in_an_inbox(port: Any) -> None:
    holder, waiter = claim(), claim()
    run(port.attempt(holder, 0.0))
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    try:
        with port.watch(waiter, ThreadRuntime().signal) as inbox:
            run(port.release(holder))
            assert run(inbox.wait(clock.now() + PATIENCE))
            assert isinstance(run(port.attempt(waiter, 0.0)), Granted)
    finally:
        run(port.release(waiter))


async def waits_on_a_channel(url: str) -> None:
    async with aio.connect(url, namespace="t") as locks:
        port = locks._client.backend
        holder, waiter = claim(), claim()
        await port.attempt(holder, 0.0)
        assert isinstance(await port.attempt(waiter, 0.0), Busy)
        with port.watch(waiter, locks._client.runtime.signal) as signal:
            assert isinstance(await port.attempt(waiter, 0.0), Busy)
            await port.release(holder)
            assert await signal.wait(clock.now() + PATIENCE)
            assert isinstance(await port.attempt(waiter, 0.0), Granted)
        await port.release(waiter)


def test_it_is_enough(guarded: RedisServer) -> None:
    guarded.ask("ACL", "LOG", "RESET")
    exercise(guarded.url.replace("/0", "/1"))
    assert guarded.ask("ACL", "LOG") == []


def test_it_is_enough_on_redis_6(redis6_server: RedisServer) -> None:
    """There everybody may use all channels, unless the rules say otherwise first."""
    redis6_server.ask("ACL", "SETUSER", "locks", "on", ">s3cret", *documented("t").split())
    url = redis6_server.url.replace("redis://", "redis://locks:s3cret@")
    exercise(url.replace("/0", "/1"))


@pytest.mark.parametrize("permission", commands(documented()))
def test_without_one_of_them_an_error_says_which(guarded: RedisServer, permission: str) -> None:
    guarded.flushall()
    guarded.script_flush()
    command = permission[1:]
    guarded.ask("ACL", "SETUSER", "locks", f"-{command}")
    try:
        if permission in TOLERATED:
            exercise(guarded.url.replace("/0", "/1"))
            return
        named = rf"needs the permission [^(]*{re.escape(permission)} "
        with pytest.raises(BackendError, match=named):
            exercise(guarded.url.replace("/0", "/1"))
    finally:
        guarded.ask("ACL", "SETUSER", "locks", permission)
        guarded.flushall()


@pytest.mark.parametrize("permission", ["+set", "+blpop"])
def test_without_one_of_them_on_redis_6_too(redis6_server: RedisServer, permission: str) -> None:
    """It checks what scripts call as well, and says only where in the script that was."""
    rules = [*documented("t").split(), f"-{permission[1:]}"]
    redis6_server.ask("ACL", "SETUSER", "few", "reset", "on", ">s3cret", *rules)
    url = redis6_server.url.replace("redis://", "redis://few:s3cret@")
    try:
        with pytest.raises(BackendError, match=re.escape(f"needs the permission {permission} ")):
            exercise(url)
    finally:
        redis6_server.ask("ACL", "DELUSER", "few")
        redis6_server.flushall()


@pytest.mark.parametrize(
    ("taken", "given", "named"),
    [("resetkeys", "~t:*", "~namespace:*"), ("resetchannels", "&locknut:*", "&locknut:*")],
)
def test_without_its_keys_or_channels_too(
    guarded: RedisServer, taken: str, given: str, named: str
) -> None:
    guarded.ask("ACL", "SETUSER", "locks", taken)
    try:
        with pytest.raises(BackendError, match=re.escape(f"needs the permission {named} ")):
            exercise(guarded.url.replace("/0", "/1"))
    finally:
        guarded.ask("ACL", "SETUSER", "locks", given)
        guarded.flushall()


def test_what_the_scripts_call_is_what_is_documented() -> None:
    """Whoever adds a command to a script adds it to the page."""
    folder = files("locknut.backends.redis.scripts")
    texts = [each.read_text() for each in folder.iterdir() if each.name.endswith(".lua")]
    called = {f"+{each}" for text in texts for each in re.findall(r"\.p?call\('(\w+)'", text)}
    sent = {f"+{each}" for each in SENT}
    known = set(commands(documented_for_a_cluster()))
    assert known == called | sent
    assert set(commands(documented())) == known - ON_A_CLUSTER
    told = commands(documented())
    assert not set(told[told.index("+exists") :]) & sent, "these are called by the scripts alone"


def test_other_namespaces_are_out_of_reach(guarded: RedisServer) -> None:
    with locknut.connect(guarded.url, namespace="other") as locks:
        with pytest.raises(BackendError, match="~namespace"):
            locks.lock("x").acquire()
        with pytest.raises(BackendError, match="~namespace"):
            locks.info("x")


def test_on_a_cluster_it_is_enough_too() -> None:
    rules = documented_for_a_cluster("t")
    with RedisCluster(user="locks", password="s3cret", rules=rules) as cluster:
        exercise(cluster.url)
        assert [node.ask("ACL", "LOG") for node in cluster.nodes] == [[], [], []]


def test_on_a_cluster_its_state_may_be_a_secret() -> None:
    rules = documented_for_a_cluster("t").replace("+cluster|info", "")
    with RedisCluster(user="locks", password="s3cret", rules=rules, masters=1) as cluster:
        exercise(cluster.url)


def refuse(server: RedisServer, taken: str) -> None:
    server.ask("ACL", "SETUSER", "locks", *(f"-{each}" for each in taken.split()))


def test_threads_alone_need_no_channels(guarded: RedisServer) -> None:
    left_out = "info select scan subscribe publish"
    guarded.ask("ACL", "LOG", "RESET")
    refuse(guarded, left_out)
    try:
        port: Any = open_engine(guarded.url)[0].blocking(ThreadRuntime())
        waits_in_an_inbox(port)
        run(port.close())
        with locknut.connect(guarded.url, namespace="t") as locks:
            with locks.lock("x") as lease:
                lease.renew()
                with pytest.raises(BackendError, match=r"needs the permission \+publish "):
                    locks.force_release("x")
                lease.renew()
            with pytest.raises(BackendError, match=r"needs the permission \+scan "):
                locks.list()
    finally:
        guarded.ask("ACL", "SETUSER", "locks", *(f"+{each}" for each in left_out.split()))


def test_loops_alone_need_no_inboxes(guarded: RedisServer) -> None:
    left_out = "info select scan blpop rpush"
    refuse(guarded, left_out)
    try:
        asyncio.run(waits_on_a_channel(guarded.url))
    finally:
        guarded.ask("ACL", "SETUSER", "locks", *(f"+{each}" for each in left_out.split()))


def test_at_the_sentinels_one_command_is_enough(redis_sentinel: SentinelService) -> None:
    rules = ["on", ">s3cret", "+sentinel|get-master-addr-by-name"]
    for each in redis_sentinel.sentinels:
        each.ask("ACL", "SETUSER", "few", *rules)
    url = f"{redis_sentinel.url}?sentinel_username=few&sentinel_password=s3cret"
    try:
        with locknut.connect(url, namespace="t") as locks, locks.lock("x", timeout=PATIENCE):
            pass
    finally:
        for each in redis_sentinel.sentinels:
            each.ask("ACL", "DELUSER", "few")


def test_waiting_for_replicas_needs_one_more(guarded: RedisServer) -> None:
    url = f"{guarded.url}?wait_replicas=1&wait_timeout=0.05"
    with (
        locknut.connect(url, namespace="t") as locks,
        pytest.raises(BackendError, match=r"needs the permission \+wait "),
    ):
        locks.lock("x", timeout=5).acquire()
    guarded.flushall()


@pytest.mark.parametrize("layout", ["redisson", "redis-py"])
def test_in_a_foreign_layout_errors_name_what_is_missing(guarded: RedisServer, layout: str) -> None:
    rules = "~* &* +@all -incr -exists -set -hset -hincrby"
    guarded.ask("ACL", "SETUSER", "few", "on", ">few", *rules.split())
    url = guarded.url.replace("locks:s3cret", "few:few")
    named = r"needs the permission \+(incr|exists|set|hset|hincrby) "
    with (
        locknut.connect(f"{url}?layout={layout}") as locks,
        pytest.raises(BackendError, match=named),
    ):
        locks.lock("x", timeout=5).acquire()
    guarded.flushall()
