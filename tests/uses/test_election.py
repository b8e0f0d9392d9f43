"""Elections on the engines, and what is special to one colour."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import BackendUnavailable, LeaseLost, aio
from locknut.runtimes.threads import run
from tests.servers.databases import Database
from tests.servers.etcd import EtcdServer
from tests.servers.memcached import MemcachedServer
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.zookeeper import ZooKeeperServer
from tests.uses.election_rules import ElectionRules


@pytest.fixture(autouse=True)
def _nobody_in_a_hurry(patient_callers: None) -> None:
    """A busy machine stalls a server for longer than a non-blocking attempt waits for it."""


@pytest.mark.memory
class TestMemory(ElectionRules):
    url = "memory:election"


@pytest.mark.file
class TestFile(ElectionRules):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}"


@pytest.mark.sqlite
class TestSqlite(ElectionRules):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/locks.db"


@pytest.mark.redis
class TestRedis(ElectionRules):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url


@pytest.mark.slow
@pytest.mark.postgresql
class TestPostgresql(ElectionRules):
    @pytest.fixture
    def engine_url(self, postgresql_database: Database) -> str:
        return postgresql_database.url


@pytest.mark.slow
@pytest.mark.mariadb
class TestMariaDb(ElectionRules):
    @pytest.fixture
    def engine_url(self, mariadb_database: Database) -> str:
        return mariadb_database.url


@pytest.mark.slow
@pytest.mark.mysql
class TestMySql(ElectionRules):
    @pytest.fixture
    def engine_url(self, mysql_database: Database) -> str:
        return mysql_database.url


@pytest.mark.slow
@pytest.mark.redlock
class TestRedlock(ElectionRules):
    @pytest.fixture
    def engine_url(self, redlock_nodes: RedlockNodes) -> str:
        return f"{redlock_nodes.url}&node_timeout=2"


@pytest.mark.slow
@pytest.mark.memcached
class TestMemcached(ElectionRules):
    @pytest.fixture
    def engine_url(self, memcached_server: MemcachedServer) -> str:
        return memcached_server.url


@pytest.mark.slow
@pytest.mark.etcd
class TestEtcd(ElectionRules):
    @pytest.fixture
    def engine_url(self, etcd_server: EtcdServer) -> str:
        return etcd_server.url


@pytest.mark.slow
@pytest.mark.zookeeper
class TestZooKeeper(ElectionRules):
    @pytest.fixture
    def engine_url(self, zookeeper_server: ZooKeeperServer) -> str:
        return f"{zookeeper_server.url}/election"


def test_a_loss_cancels_the_work_on_a_loop() -> None:
    async def main() -> None:
        async with aio.connect("memory:cancels") as locks, aio.connect("memory:cancels") as other:
            ended, leading = [], asyncio.Event()

            async def work(_term: object) -> None:
                leading.set()
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append("cancelled")

            leader = asyncio.create_task(locks.election("x").run(work))
            assert await leading.wait()
            assert await other.force_release("x")
            with pytest.raises(LeaseLost):
                await leader
            assert ended == ["cancelled"]
            assert not leader.cancelling()

    asyncio.run(main())


def test_a_cancelled_candidate_leaves_the_line() -> None:
    async def main() -> None:
        async with aio.connect("memory:line") as locks, aio.connect("memory:line") as other:
            stands_by = asyncio.Event()

            def heard(event: locknut.Event) -> None:
                if event.kind == "waiting":
                    stands_by.set()

            locks.on_event(heard)
            async with other.lock("x"):

                async def work(_term: object) -> None:
                    raise AssertionError("it must never lead")

                candidate = asyncio.create_task(locks.election("x").run(work))
                assert await stands_by.wait()
                candidate.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await candidate
                assert not (await other.info("x")).waiters

    asyncio.run(main())


def test_a_loop_that_is_left_ends_the_term_without_a_with() -> None:
    with locknut.connect("memory:left") as locks, locknut.connect("memory:left") as other:
        for term in locks.election("x").terms():
            assert other.election("x").leader() is not None
            assert term.leads
            break
        gc.collect()
        assert other.lock("x").acquire(timeout=30)


def test_one_term_ends_before_the_next_begins() -> None:
    with locknut.connect("memory:next") as locks:
        fences = []
        for term in locks.election("x").terms():
            fences.append(term.fence)
            if len(fences) == 3:
                break
        assert fences == sorted(set(fences))


def test_candidates_wait_for_an_engine_that_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with locknut.connect("memory:away") as locks:
        real, failures = locks._client.backend.attempt, [0]
        told: list[str] = []
        locks.on_event(lambda event: told.append(f"{event.kind}: {event.reason}"))

        async def attempt(*given: object) -> object:
            failures[0] += 1
            if failures[0] < 3:
                raise BackendUnavailable("no answer")
            return await real(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(locks._client.backend, "attempt", attempt)
        monkeypatch.setattr("locknut.core.pacing.OUTAGE_PATIENCE", 0.0)
        for term in locks.election("x").terms():
            with term:
                break
        assert "timed_out: no answer" in told


@pytest.mark.parametrize("face", [locknut, aio], ids=["blocking", "asyncio"])
def test_a_wait_for_an_engine_out_of_reach_has_an_end_too(
    face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a program that looks after each wait whether it is to stop could not be stopped."""
    tries = []

    async def attempt(*_: object) -> object:
        tries.append("tried")
        assert len(tries) < 1000, "it goes on for ever"
        raise BackendUnavailable("no answer")

    async def candidate() -> list[object]:
        locks = face.connect("memory:away-for-good")
        monkeypatch.setattr(locks._client.backend, "attempt", attempt)
        election = locks.election("x")
        terms = election.terms(timeout=0.2)
        found = list(terms) if face is locknut else [term async for term in terms]
        closed = locks.close()
        if closed is not None:
            await closed
        return found

    monkeypatch.setattr("locknut.core.pacing.OUTAGE_PATIENCE", 0.0)
    monkeypatch.setattr("locknut.core.pacing.backoff", lambda *_: 0.01)
    assert (run(candidate()) if face is locknut else asyncio.run(candidate())) == []
    assert tries


def test_a_listener_that_raises_does_not_blind_the_observer() -> None:
    with locknut.connect("memory:listener") as locks:
        seen = []
        looked = threading.Event()
        told = locknut.connect("memory:listener-told").lock("told").acquire()
        assert told is not None

        def changed(leader: object) -> None:
            seen.append(leader)
            looked.set()
            if len(seen) == 2:
                told.release()
            raise ZeroDivisionError

        stop = locks.election("x").on_change(changed, every=0.001)
        assert looked.wait(30)
        with locks.lock("x"):
            assert locknut.connect("memory:listener-told").lock("told").acquire(timeout=30)
        stop()
        assert seen[0] is None


@pytest.mark.parametrize("face", [locknut, aio])
def test_a_wrong_name_or_ttl_is_refused_at_once(face: object) -> None:
    for wrong in ({"name": ""}, {"name": "x", "ttl": -1}):
        with pytest.raises(locknut.ConfigurationError):
            face.election(**wrong)  # type: ignore[attr-defined]
