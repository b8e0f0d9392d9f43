"""A master behind Sentinels: found, lost, found again; and what becomes of holders and waiters."""

from __future__ import annotations

import asyncio
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.redis import inboxes
from locknut.backends.redis.sync import blocking_backend
from locknut.core.values import Busy, Granted
from locknut.drivers.redis.endpoints import Endpoint, FixedEndpoint, Latest
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.sentinel import Sentinels, read
from locknut.drivers.redis.settings import read as read_one
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import parse
from tests.backends.redis.conftest import PATIENCE, claim, eventually, somebody_waits
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SERVICE, SentinelService

pytestmark = [pytest.mark.redis, pytest.mark.faults]


@pytest.fixture
def service(redis_sentinel: SentinelService) -> Iterator[SentinelService]:
    redis_sentinel.wait_until_whole()
    yield redis_sentinel
    redis_sentinel.wait_until_whole()


# Addresses.


def test_what_a_url_says() -> None:
    url = "redis+sentinel://ann:s3cret@h1,h2:7,[::1]:8/jobs/3?sentinel_username=bob&sentinel_password=deep"
    place = read(parse(url))
    assert (place.service, place.settings.db) == ("jobs", 3)
    assert (place.settings.username, place.settings.password) == ("ann", "s3cret")
    assert [each.place for each in place._sentinels] == ["h1:26379", "h2:7", "::1:8"]
    assert {(each.username, each.password, each.db) for each in place._sentinels} == {
        ("bob", "deep", 0)
    }
    assert "deep" not in repr(place._sentinels)


@pytest.mark.parametrize(("options", "sentinels_too"), [("", True), ("?sentinel_tls=false", False)])
def test_tls_to_the_master_and_to_the_sentinels(options: str, sentinels_too: bool) -> None:
    place = read(parse(f"rediss+sentinel://h1/jobs{options}"))
    assert place.settings.tls is not None
    assert (place._sentinels[0].tls is not None) is sentinels_too


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("redis+sentinel://h1", "name of the service"),
        ("redis+sentinel://h1/jobs/three", "database"),
        ("redis+sentinel://h1/jobs?sentinel_tls=maybe", "sentinel_tls"),
        ("redis+sentinel://h1/jobs?colour=red", "colour"),
        ("redis://h1?sentinel_password=x", "sentinel_password"),
    ],
)
def test_what_is_refused(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        locknut.connect(url)


def test_the_service_names_the_locks_not_the_hosts() -> None:
    with locknut.connect("redis+sentinel://h1,h2/jobs") as locks:
        assert locks._client.id == "redis+sentinel:jobs/0"


def test_a_replica_is_refused_and_named(service: SentinelService) -> None:
    url = service.replicas[0].url
    with locknut.connect(url) as locks, pytest.raises(BackendError, match="read-only replica"):
        locks.lock("x").acquire(timeout=0)

    async def story() -> None:
        async with aio.connect(url) as locks:
            with pytest.raises(BackendError, match="read-only replica"):
                await locks.lock("x").acquire(timeout=0)

    asyncio.run(story())


# Sentinels that do not help.


class Liar(socketserver.ThreadingTCPServer):
    """A Sentinel that was cut off, and goes on telling the same address; or says nothing."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, told: RedisServer | None):
        self.told = told
        self.ignorant = False
        """Whether it has never heard of the service."""
        self.takes = 0.0
        """Seconds before it answers."""
        self.asked = 0
        super().__init__(("127.0.0.1", 0), Answering)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Answering(socketserver.StreamRequestHandler):
    server: Liar

    def handle(self) -> None:
        while data := self.connection.recv(4096):
            if self.server.told is None:
                continue
            time.sleep(self.server.takes)  # the fault itself
            if b"HELLO" in data:
                self.wfile.write(b"*2\r\n+mode\r\n+sentinel\r\n")
            if b"SENTINEL" in data:
                self.server.asked += 1
                if self.server.ignorant:
                    self.wfile.write(b"*-1\r\n")
                    continue
                port = str(self.server.told.port)
                self.wfile.write(f"*2\r\n$9\r\n127.0.0.1\r\n${len(port)}\r\n{port}\r\n".encode())


@contextmanager
def liar(told: RedisServer | None) -> Iterator[Liar]:
    with Liar(told) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_what_a_sentinel_tells_is_not_believed(service: SentinelService, colour: str) -> None:
    """An old opinion leads to a replica, which says so itself; the next Sentinel is asked."""
    with liar(service.replicas[0]) as wrong:
        url = f"redis+sentinel://{wrong.place},{service.url.removeprefix('redis+sentinel://')}"
        if colour == "blocking":
            with locknut.connect(url) as locks, locks.lock("x", timeout=PATIENCE):
                pass
        else:

            async def story() -> None:
                async with aio.connect(url) as locks, locks.lock("x", timeout=PATIENCE):
                    pass

            asyncio.run(story())
        assert wrong.asked


def test_a_service_that_no_sentinel_knows_is_told_at_once(service: SentinelService) -> None:
    url = service.url.replace(SERVICE, "nowhere")
    with locknut.connect(url) as locks:
        with pytest.raises(BackendError, match="knows no service 'nowhere'") as caught:
            locks.lock("x").acquire()
        assert not isinstance(caught.value, BackendUnavailable), "it would have been tried again"


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_one_sentinel_that_refuses_us_hides_nothing(service: SentinelService, colour: str) -> None:
    """Users are changed Sentinel by Sentinel, and one may restart without its ACL."""
    with RedisServer(user="ann", password="s3cret") as strict:
        hosts = service.url.removeprefix("redis+sentinel://")
        url = f"redis+sentinel://{strict.host}:{strict.port},{hosts}"
        use(colour, url)
        alone = f"redis+sentinel://{strict.host}:{strict.port}/{SERVICE}"
        with locknut.connect(alone) as locks, pytest.raises(BackendError, match="wants a password"):
            locks.lock("x").acquire()


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_one_sentinel_that_does_not_know_the_service_hides_nothing(
    redis_server: RedisServer, colour: str
) -> None:
    with liar(redis_server) as strange, liar(redis_server) as known:
        strange.ignorant = True
        use(colour, f"redis+sentinel://{strange.place},{known.place}/{SERVICE}")
        assert strange.asked
        assert known.asked


def use(colour: str, url: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks, locks.lock("x", timeout=PATIENCE):
            pass

    if colour == "asyncio":
        asyncio.run(story())
        return
    with locknut.connect(url) as locks, locks.lock("x", timeout=PATIENCE):
        pass


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
@pytest.mark.slow
def test_a_timeout_is_kept_though_all_sentinels_are_silent(colour: str) -> None:
    """They are asked one after the other, and none of them is given its whole time limit."""
    with liar(None) as one, liar(None) as two, liar(None) as three:
        url = f"redis+sentinel://{one.place},{two.place},{three.place}/{SERVICE}"

        async def story() -> None:
            async with aio.connect(url) as locks:
                with pytest.raises(BackendUnavailable):
                    await locks.lock("x").acquire(timeout=1)

        begun = now()
        if colour == "asyncio":
            asyncio.run(story())
        else:
            with locknut.connect(url) as locks, pytest.raises(BackendUnavailable):
                locks.lock("x").acquire(timeout=1)
        assert now() - begun < 4, "the Sentinels took six seconds"


def test_a_silent_sentinel_leaves_the_others_some_of_a_short_time(service: SentinelService) -> None:
    """It comes first in the URL, and would take more time than the caller has, every time."""
    hosts = service.url.removeprefix("redis+sentinel://")
    with liar(None) as silent:
        url = f"redis+sentinel://{silent.place},{hosts}?socket_timeout=20"
        with locknut.connect(url) as locks:
            lease = locks.lock("x").acquire(timeout=3)
            assert lease is not None
            lease.release()


def test_the_loop_goes_on_while_sentinels_are_silent(service: SentinelService) -> None:
    async def story(silent: Liar) -> None:
        hosts = service.url.removeprefix("redis+sentinel://")
        url = f"redis+sentinel://{silent.place},{hosts}?socket_timeout=2"
        async with aio.connect(url) as locks:
            asking = asyncio.create_task(locks.info("x"))
            turns = 0
            while not asking.done():
                await asyncio.sleep(0.005)
                turns += 1
            await asking
            assert turns >= 5, "the loop stood still"

    with liar(None) as silent:
        asyncio.run(story(silent))


# Failover.


def test_holders_and_waiters_outlive_a_failover(service: SentinelService) -> None:
    with (
        locknut.connect(service.url, namespace="t") as one,
        locknut.connect(service.url, namespace="t") as two,
    ):
        lease = one.lock("x", ttl=20).acquire()
        assert lease is not None
        got: list[Any] = []
        waiter = threading.Thread(target=lambda: got.append(two.lock("x").acquire()))
        waiter.start()
        eventually(lambda: one.info("x").waiters, "nobody waits")
        old = service.master
        old.wait_for_replicas(2)
        assert service.failover() is not old
        lease.renew()
        lease.check()
        assert one.info("x").locked
        lease.release()
        waiter.join(PATIENCE)
        assert got[0].fence > lease.fence
        got[0].release()


def test_holders_and_waiters_outlive_a_failover_on_a_loop(service: SentinelService) -> None:
    async def story() -> None:
        async with (
            aio.connect(service.url, namespace="t") as one,
            aio.connect(service.url, namespace="t") as two,
        ):
            lease = await one.lock("y", ttl=20).acquire()
            assert lease is not None
            waiter = asyncio.create_task(two.lock("y").acquire())
            await somebody_waits(one, "y")
            service.master.wait_for_replicas(2)
            await asyncio.to_thread(service.failover)
            await lease.renew()
            await lease.release()
            async with asyncio.timeout(PATIENCE):
                got = await waiter
            assert got is not None
            assert got.fence > lease.fence
            await got.release()

    asyncio.run(story())


@pytest.mark.slow
def test_a_hold_that_the_new_master_does_not_have_is_told_lost(service: SentinelService) -> None:
    with locknut.connect(service.url, namespace="t") as locks:
        lease = locks.lock("z", ttl=3).acquire()
        assert lease is not None
        service.failover().flushall()  # as if it had not been replicated
        assert lease.lost.wait(PATIENCE)
        with locks.lock("z", timeout=PATIENCE) as later:
            assert later.fence > lease.fence


@pytest.mark.slow
def test_a_killed_master_is_replaced_under_a_waiter(service: SentinelService) -> None:
    with (
        locknut.connect(service.url, namespace="t") as one,
        locknut.connect(service.url, namespace="t") as two,
    ):
        lease = one.lock("k", ttl=20).acquire()
        assert lease is not None
        old = service.master
        got: list[Any] = []

        def wait() -> None:
            while not got:
                try:
                    got.append(two.lock("k").acquire())
                except BackendUnavailable:
                    continue  # a failover may take longer than the patience with an outage

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: one.info("k").waiters, "nobody waits")
        old.wait_for_replicas(2)
        old.kill()
        service.wait_for_another(old)
        lease.renew()
        lease.release()
        waiter.join(PATIENCE)
        assert got[0].fence > lease.fence
        got[0].release()


class Switch:
    """A place that leads to another server after a failover."""

    watched = False

    def __init__(self, *servers: RedisServer):
        self.latest = Latest()
        self.places: list[Endpoint] = [
            FixedEndpoint(read_one(parse(server.url))) for server in servers
        ]
        self.settings = self.places[0].settings

    async def reach(self, dial: Any) -> Any:
        return await self.places[0].reach(dial)

    async def confirm(self, dial: Any) -> None:
        """Nobody knows."""


def test_a_grant_of_the_new_master_does_not_count_from_an_answer_of_the_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S1 between servers: the old one said "not yet" long after the new one had granted."""
    monkeypatch.setattr(inboxes, "_LATE", 5.0)  # what it says is waited for
    with RedisServer() as old, RedisServer() as new:
        place = Switch(old, new)
        pool = Pool(place)
        port, other = blocking_backend(pool), blocking_backend(Pool(place.places[1]))
        holders, waiter = [claim(), claim()], claim()
        run(port.attempt(holders[0], 0.0))
        run(other.attempt(holders[1], 0.0))
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
        assert isinstance(run(other.attempt(waiter, 0.0)), Busy)
        with port.watch(waiter, ThreadRuntime().signal) as inbox:
            run(port.attempt(waiter, 0.0))
            run(other.release(holders[1]))  # the new master grants: now in its inbox
            run(inbox.wait(now() + 0.2))  # for nothing: the old one knows nothing of it
            place.places.reverse()
            old.client_kill()
            pool._idle[0].used = 0.0  # long idle: the cut is seen before it is used
            assert run(inbox.wait(now() + 5.0))
            granted = run(port.attempt(waiter, 0.0))
        assert isinstance(granted, Granted)
        assert granted.anchor is None, "it counts from an answer of the old master"
        assert granted.ttl is None
        run(port.close())
        run(other.close())


def test_a_pool_leaves_a_server_that_became_a_replica(service: SentinelService) -> None:
    place = read(parse(service.url))
    assert isinstance(place, Sentinels)
    port, mine = blocking_backend(Pool(place)), claim("demoted")
    assert isinstance(run(port.attempt(mine, 0.0)), Granted)
    old = service.master
    old.wait_for_replicas(2)
    new = service.failover()
    assert new is not old

    def released() -> bool:
        try:
            return run(port.release(mine))
        except BackendUnavailable:
            return False

    eventually(released, "the new master was not found")
    run(port.close())
