"""`once` on every engine that can remember a slot, and what the others say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.errors import BackendUnavailable, ConfigurationError, LeaseLost, Unsupported
from tests.servers.databases import Database
from tests.servers.etcd import EtcdServer
from tests.servers.memcached import MemcachedServer
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.zookeeper import ZooKeeperServer
from tests.uses.clock_on_the_wall import NOON, WallClock
from tests.uses.once_rules import OnceRules


@pytest.fixture(autouse=True)
def _nobody_in_a_hurry(patient_callers: None) -> None:
    """A busy machine stalls a server for longer than a non-blocking attempt waits for it."""


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(monkeypatch)


@pytest.mark.memory
class TestMemory(OnceRules):
    url = "memory:once"


@pytest.mark.file
class TestFile(OnceRules):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}"


@pytest.mark.sqlite
class TestSqlite(OnceRules):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/locks.db"


@pytest.mark.redis
class TestRedis(OnceRules):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url


@pytest.mark.slow
@pytest.mark.postgresql
class TestPostgresql(OnceRules):
    @pytest.fixture
    def engine_url(self, postgresql_database: Database) -> str:
        return postgresql_database.url


@pytest.mark.slow
@pytest.mark.mariadb
class TestMariadb(OnceRules):
    @pytest.fixture
    def engine_url(self, mariadb_database: Database) -> str:
        return mariadb_database.url


@pytest.mark.slow
@pytest.mark.mysql
class TestMySql(OnceRules):
    @pytest.fixture
    def engine_url(self, mysql_database: Database) -> str:
        return mysql_database.url


@pytest.mark.slow
@pytest.mark.redlock
class TestRedlock(OnceRules):
    @pytest.fixture
    def engine_url(self, redlock_nodes: RedlockNodes) -> str:
        """It keeps a hold for long enough only if its URL says so."""
        return f"{redlock_nodes.url}&node_timeout=2&max_ttl=24h"


@pytest.mark.slow
@pytest.mark.etcd
class TestEtcd(OnceRules):
    @pytest.fixture
    def engine_url(self, etcd_server: EtcdServer) -> str:
        return etcd_server.url


@pytest.mark.slow
@pytest.mark.zookeeper
class TestZooKeeper(OnceRules):
    @pytest.fixture
    def engine_url(self, zookeeper_server: ZooKeeperServer) -> str:
        return f"{zookeeper_server.url}/once"


@pytest.mark.slow
@pytest.mark.memcached
class TestMemcached(OnceRules):
    @pytest.fixture
    def engine_url(self, memcached_server: MemcachedServer) -> str:
        return memcached_server.url


def test_an_engine_that_cannot_detach_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.backends.file.ofd_locks.works", lambda _: False)
    refused = pytest.raises(Unsupported, match=r"'detaching'; once\(\) remembers")
    with locknut.connect(f"file://{tmp_path}") as locks, refused:
        locks.once("job", per="15m")


def test_an_engine_that_forgets_too_soon_is_refused() -> None:
    nodes = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
    refused = pytest.raises(ConfigurationError, match=r"remembered for 30 min.* at most 60 s")
    with locknut.connect(nodes) as locks, refused:
        locks.once("job", per="15m")
    with locknut.connect("redis://127.0.0.1:1") as locks:
        locks.once("job", per="28d")
        with pytest.raises(ConfigurationError, match="at most 30 days"):
            locks.once("job", per="30d")


@pytest.mark.redis
def test_a_slot_is_forgotten_with_the_data_of_the_engine() -> None:
    with RedisServer() as server, locknut.connect(server.url) as locks:

        def ran() -> bool:
            with locks.once("job", per="24h") as lease:
                return lease is not None

        assert ran()
        assert not ran()
        server.flushall()
        assert ran()


def answer_lost(locks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`detach` is done by the engine, and its answer never arrives."""
    backend = locks._client.backend
    real = backend.detach

    async def detach(*given: Any) -> bool:
        await real(*given)
        raise BackendUnavailable("the answer was lost")

    monkeypatch.setattr(backend, "detach", detach)


def test_a_lost_answer_keeps_the_work_from_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    began = []
    with locknut.connect("memory:lost-answer") as locks, pytest.MonkeyPatch.context() as lossy:
        answer_lost(locks, lossy)
        with pytest.raises(BackendUnavailable), locks.once("job", per="15m") as lease:
            began.append(lease)
        assert not began
        assert not locks.info("job").locked


def test_a_lost_answer_after_the_work_is_told() -> None:
    with locknut.connect("memory:lost-afterwards") as locks, pytest.MonkeyPatch.context() as lossy:
        once = locks.once("job", per="15m", retry=True)
        assert once.acquire() is not None
        answer_lost(locks, lossy)
        with pytest.raises(BackendUnavailable):
            once.release()
        assert not locks.info("job").locked


def test_a_lost_answer_on_a_loop() -> None:
    async def main() -> None:
        async with aio.connect("memory:lost-on-a-loop") as locks:

            async def work(lossy: pytest.MonkeyPatch, *, retry: bool) -> None:
                if not retry:
                    answer_lost(locks, lossy)
                async with locks.once(f"job {retry}", per="15m", retry=retry):
                    assert retry, "the work must not begin"
                    answer_lost(locks, lossy)

            for retry in (False, True):
                with pytest.MonkeyPatch.context() as lossy, pytest.raises(BackendUnavailable):
                    await work(lossy, retry=retry)
                assert not (await locks.info(f"job {retry}")).locked

    asyncio.run(main())


def test_a_loss_cancels_the_body_on_a_loop() -> None:
    async def main() -> None:
        async with aio.connect("memory:lost") as locks, aio.connect("memory:lost") as other:

            async def work() -> None:
                async with locks.once("job", per="15m"):
                    assert await other.force_release("job")
                    await asyncio.sleep(60)

            with pytest.raises(LeaseLost):
                await work()
            async with other.once("job", per="15m") as lease:
                assert lease is None

    asyncio.run(main())


@pytest.mark.redis
def test_cancelled_at_every_await_it_leaves_no_lock_of_the_name(redis_server: RedisServer) -> None:
    """Wherever a task is cancelled on its way in, the name is free, and the work never begins."""

    async def attempt(turns: int) -> bool:
        async with aio.connect(redis_server.url, namespace=f"cancelled-{turns}") as locks:
            began = asyncio.Event()

            async def work() -> None:
                async with locks.once("job", per="15m", retry=turns % 2 == 0):
                    began.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not (await locks.info("job")).locked
            return began.is_set()

    async def main() -> None:
        turns = 0
        while not await attempt(turns):
            turns += 1
        assert turns > 2

    asyncio.run(main())


def test_a_decorated_function_runs_once_for_its_arguments(wall: WallClock) -> None:
    with locknut.connect("memory:decorated") as locks:

        @locks.once("sync:{shop}", per="15m", at="{scheduled}")
        def sync(shop: str, scheduled: float) -> str:
            return f"{shop} at {scheduled:.0f}"

        assert sync("berlin", NOON) == f"berlin at {NOON:.0f}"
        assert sync("berlin", scheduled=NOON) is None
        assert sync("paris", NOON) is not None
        assert sync("berlin", NOON + 900) is not None
        with pytest.raises(ConfigurationError, match="is for the decorator"):
            locks.once("sync", at="{scheduled}").acquire()


def test_a_decorated_coroutine_function_runs_once(wall: WallClock) -> None:
    async def main() -> None:
        async with aio.connect("memory:decorated") as locks:

            @locks.once("report", per="24h")
            async def report() -> str:
                return "written"

            assert await report() == "written"
            assert await report() is None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "per="),
        ({"per": 0}, "per must be above 0"),
        ({"per": "inf"}, "finite"),
        ({"per": -1}, "per"),
        ({"at": "yesterday"}, "at must be a datetime"),
        ({"at": True}, "at must be a datetime"),
        ({"at": 1.8e12}, "seconds since 1970"),
        ({"per": "1h", "at_most": 0}, "max_hold|at_most"),
        ({"per": "1h", "at_least": -1}, "at_least"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], words: str) -> None:
    for face in (locknut, aio):
        with pytest.raises(ConfigurationError, match=words):
            face.once("job", **options)
    with pytest.raises(ConfigurationError, match=r'@once\("test_a_lost'):
        locknut.once(test_a_lost_answer_on_a_loop, per="1h")  # type: ignore[arg-type]


def test_a_time_far_ahead_is_refused(wall: WallClock) -> None:
    with locknut.connect("memory:ahead") as locks:
        with pytest.raises(ConfigurationError, match="ahead of this host's clock"):
            locks.once("job", per="15m", at=NOON + 3600).acquire()
        with locks.once("job", per="15m", at=NOON + 600) as lease:
            assert lease is not None, "this host's clock may be behind"


def test_one_object_serves_many_threads_and_nested_starts(wall: WallClock) -> None:
    with locknut.connect("memory:shared") as locks:
        once = locks.once("job", per="15m")
        with once as lease:
            assert lease is not None
            with once as inner:
                assert inner is None
            lease.check()
        assert not lease.held
        with pytest.raises(locknut.NotHeld, match="begun no run"):
            once.release()


def test_a_run_that_takes_too_long_loses_its_lock() -> None:
    with locknut.connect("memory:too-long") as locks:
        once = locks.once("job", per="15m", at_most="20ms")
        lease = once.acquire()
        assert lease is not None
        assert lease.lost.wait(30)
        with pytest.raises(LeaseLost, match="max_hold"):
            once.release()
