"""How a lock of another library is named, and what lost answers, cuts and TLS do to a layout."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.redis.layouts import redisson
from locknut.backends.redis.layouts.foreign_layout import CLAIMS, beside, named
from locknut.errors import ConfigurationError
from locknut.urls import open_engine
from tests.backends.redis.conftest import PATIENCE, eventually
from tests.backends.redis.layouts.conftest import keys, table
from tests.backends.redis.test_faults import Losses
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SentinelService

pytestmark = pytest.mark.redis
LAYOUTS = pytest.mark.parametrize("layout", ["redisson", "redis-py"])


@LAYOUTS
def test_a_name_is_the_key(server: RedisServer, layout: str) -> None:
    """`getLock("myLock")` and `client.lock("myLock")` are `locks.lock("myLock")`."""
    url = f"{server.url}?layout={layout}"
    with locknut.connect(url) as locks, locks.lock("myLock"):
        assert "myLock" in keys(server)
        assert locks.namespace == ""
        assert [each.name for each in locks.list()] == ["myLock"]
    with locknut.connect(f"{url}&namespace=shop") as locks, locks.lock("myLock"):
        assert "shop:myLock" in keys(server)
        assert [each.name for each in locks.list()] == ["myLock"]
        with locknut.connect(url) as bare:
            assert bare.lock("shop:myLock").acquire(blocking=False) is None, "it is one key"


@LAYOUTS
def test_layouts_and_our_own_do_not_meet(server: RedisServer, layout: str) -> None:
    with (
        locknut.connect(server.url) as ours,
        locknut.connect(f"{server.url}?layout={layout}") as others,
        ours.lock("x"),
        others.lock("x", timeout=0),
    ):
        assert [each.name for each in ours.list()] == ["x"]
        assert [each.name for each in others.list()] == ["x"]


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="layout must be redisson or redis-py"):
        open_engine("redis://localhost?layout=jedis")


@LAYOUTS
def test_a_cluster_is_refused(layout: str) -> None:
    with pytest.raises(ConfigurationError, match="layout= is for one server or Sentinels"):
        open_engine(f"redis+cluster://localhost?layout={layout}")


@LAYOUTS
def test_waiting_for_replicas_is_refused(layout: str) -> None:
    with pytest.raises(ConfigurationError, match="wait_replicas= is for our own layout"):
        open_engine(f"redis://localhost?layout={layout}&wait_replicas=1")


@LAYOUTS
def test_several_are_taken_one_after_the_other(server: RedisServer, layout: str) -> None:
    with locknut.connect(f"{server.url}?layout={layout}") as locks:
        with locks.all("a", "b"):
            pass  # the scripts are known
        before = server.scripts_run()
        leases = locks.all("a", "b", "c").acquire()
        assert leases is not None
        assert server.scripts_run() - before == 3
        leases.release()


def test_the_number_of_redisson_begins_again_after_a_flush(server: RedisServer) -> None:
    with locknut.connect(f"{server.url}?layout=redisson") as locks:
        for _ in range(2):
            with locks.lock("x") as lease:
                assert lease.fence == 1
            server.flushall()


@pytest.mark.usefixtures("no_net")
def test_waking_behind_sentinels(redis_sentinel: SentinelService) -> None:
    redis_sentinel.wait_until_whole()
    master = redis_sentinel.master
    master.ask("HSET", "x", "somebody:1", 1)
    _wakes(f"{redis_sentinel.url}?layout=redisson", lambda: free(master))
    master.flushall()


@pytest.mark.parametrize("name", ["a", "{a}", "a{b}c", "}", "{", "a}b", "{}", "a:locknut_claims"])
def test_what_stands_beside_a_name_leads_back_to_it(name: str) -> None:
    assert named(beside(CLAIMS, name.encode()), CLAIMS) == name.encode()


def test_locks_with_and_without_braces_have_their_own(server: RedisServer) -> None:
    """Redisson's own names for `a` and `{a}` are the same; our claims must not be."""
    url = f"{server.url}?layout=redisson"
    with (
        locknut.connect(url) as locks,
        locks.lock("a") as one,
        locks.lock("{a}", timeout=0) as two,
    ):
        assert two.fence > one.fence
        one.renew()
        two.renew()


@LAYOUTS
@pytest.mark.faults
def test_answers_lost_after_acquire_and_release(
    server: RedisServer, layout: str, losses: Losses
) -> None:
    with locknut.connect(f"{server.url}?layout={layout}") as locks:
        with locks.lock("warm"):
            pass
        losses.left = 1
        with locks.lock("x") as lease:
            assert [each.fence for each in locks.info("x").holders] == [lease.fence]
            assert lease._hold.outcome_unknown
            losses.left = 1
        assert not locks.info("x").locked
        with locks.lock("x", timeout=5) as later:
            assert later.fence > lease.fence


@LAYOUTS
@pytest.mark.faults
def test_answers_lost_on_a_loop(server: RedisServer, layout: str, losses: Losses) -> None:
    async def story() -> None:
        async with aio.connect(f"{server.url}?layout={layout}") as locks:
            async with locks.lock("warm"):
                pass
            losses.left = 1
            async with locks.lock("x", owner="me") as lease:
                info = await locks.info("x")
                assert [each.fence for each in info.holders] == [lease.fence]
                losses.left = 1
            assert not (await locks.info("x")).locked

    asyncio.run(story())


@pytest.mark.faults
def test_a_flushed_script_is_loaded_again(server: RedisServer) -> None:
    with locknut.connect(f"{server.url}?layout=redisson") as locks:
        server.script_flush()
        with locks.lock("x") as lease:
            server.script_flush()
            lease.renew()
            assert list(table(server, "x").values()) == ["1"]
            server.script_flush()


def _wakes(url: str, publish: Callable[[], object]) -> None:
    """One waits, asleep for as long as it takes; then the key goes, and it is told."""
    with locknut.connect(url) as locks:
        got: list[Any] = []
        told = threading.Event()
        locks.on_event(lambda event: told.set() if event.kind == "waiting" else None)

        def wait() -> None:
            with locks.lock("x", timeout=PATIENCE) as lease:
                got.append(lease.fence)

        waiter = threading.Thread(target=wait)
        waiter.start()
        assert told.wait(PATIENCE)
        publish()
        waiter.join(PATIENCE)
        assert got


def free(there: RedisServer) -> None:
    """As Java does, once somebody listens."""
    channel = "redisson_lock__channel:{x}"
    heard = [channel.encode(), 1]
    eventually(lambda: there.ask("PUBSUB", "NUMSUB", channel) == heard, "nobody listens")
    both = "redis.call('del', KEYS[1]) redis.call('publish', ARGV[1], '0')"
    there.ask("EVAL", both, 1, "x", channel)


@pytest.fixture
def no_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is woken was told."""
    monkeypatch.setattr(redisson, "NET", 60.0)


@pytest.mark.usefixtures("no_net")
@pytest.mark.parametrize("kind", ["redis_tls_server", "redis_unix_server", "valkey_server"])
def test_waking_over_every_kind_of_connection(request: pytest.FixtureRequest, kind: str) -> None:
    there: RedisServer = request.getfixturevalue(kind)
    there.ask("HSET", "x", "somebody:1", 1)

    mark = "&" if "?" in there.url else "?"
    _wakes(f"{there.url}{mark}layout=redisson", lambda: free(there))
    there.flushall()


@pytest.mark.usefixtures("no_net")
@pytest.mark.faults
def test_a_server_that_restarts_while_somebody_waits() -> None:
    """The hold is gone with its data, and no message tells so: the new connection asks."""
    with RedisServer() as own:
        own.ask("HSET", "x", "somebody:1", 1)
        _wakes(f"{own.url}?layout=redisson", lambda: own.restart(keep_data=False))


def test_a_user_that_may_not_listen_is_told(server: RedisServer) -> None:
    """Not silently polling: without the channel there is no waking up."""
    server.ask("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "+@all", "resetchannels")
    server.ask("HSET", "x", "somebody:1", 1)
    url = f"redis://deaf:pw@{server.host}:{server.port}?layout=redisson"
    try:
        with (
            locknut.connect(url) as locks,
            pytest.raises(locknut.BackendError, match="ACL") as caught,
        ):
            locks.lock("x").acquire(timeout=5)
        assert caught.value.key == "x"
    finally:
        server.ask("ACL", "DELUSER", "deaf")
        server.ask("DEL", "x")
