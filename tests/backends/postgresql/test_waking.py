"""Who waits is woken by NOTIFY, at once and alone; without it, by its own looks."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

import locknut
from locknut import Capability, aio
from locknut.backends.sql.postgresql import doorbells
from locknut.testing.conformance.colours import Colour
from tests.backends.postgresql.conftest import connect, eventually, listens, somebody_waits, until
from tests.servers.databases import Database
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgresql import PostgresServer

pytestmark = pytest.mark.postgresql
CLIENT = Path(__file__).with_name("taker.py")


def test_a_release_wakes_who_is_next(database: Database, paint: Colour) -> None:
    """Far sooner than it would look by itself."""

    async def story() -> None:
        locks, others = connect(paint, database.url), connect(paint, database.url)
        best = 60.0
        for _ in range(10):
            lease = await locks.lock("x").acquire(timeout=60)
            waiter = paint.spawn(lambda: others.lock("x").acquire(timeout=60))
            await until(paint, lambda: listens(database) and somebody_waits(database))
            began = time.monotonic()
            await lease.release()
            held = await waiter.result(60)
            best = min(best, time.monotonic() - began)
            await held.release()
        assert best < 0.2
        await locks.close()
        await others.close()

    paint.run(story())


@pytest.mark.slow
def test_a_client_that_waits_no_more_stops_listening(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        locknut.connect(database.url, namespace="t") as locks,
        locknut.connect(database.url, namespace="t") as others,
    ):
        for _ in range(2):
            with locks.lock("x"), monkeypatch.context() as patched:
                assert others.lock("x").acquire(timeout=1.5) is None
                eventually(lambda: listens(database), "it did not begin to listen")
                patched.setattr(doorbells, "LINGER", 0.0)
                eventually(lambda: not listens(database), "it listens on")


def test_closing_ends_the_listener(database: Database) -> None:
    with locknut.connect(database.url, namespace="t") as locks, locks.lock("x"):
        others = locknut.connect(database.url, namespace="t")
        assert others.lock("x").acquire(timeout=1.5) is None
        others.close()
        eventually(lambda: not listens(database), "it listens on")


def test_a_hand_over_costs_four_statements(own_server: PostgresServer) -> None:
    """Joining the line, taking the lock, giving it back, and the ring; beats are apart."""
    database = own_server.database()
    with locknut.connect(database.url, namespace="t") as locks:
        with locks.lock("x"):
            takers = [_taker(database.url, "40") for _ in range(4)]
            for each in takers:
                assert each.stdout
                assert each.stdout.readline() == "ready\n"
            asked = "SELECT length(line) - length(replace(line, chr(10), '')) FROM locknut_locks"
            eventually(lambda: (4,) in database.ask(asked), "not all wait")
            database.ask("ALTER SYSTEM SET log_statement = 'all'")
            database.ask("SELECT pg_reload_conf()")
            log = own_server.folder / "log"
            began = time.monotonic()
        ends = [each.communicate(timeout=100) for each in takers]
        took = time.monotonic() - began
    assert [out for out, _ in ends] == ["done\n"] * 4
    statements = len(re.findall(r"execute locknut_\w+: (?!INSERT)", log.read_text()))
    looks = 2 * took + 10  # the first two in line look once a second, whatever happens
    assert statements <= 4 * 160 + looks


def _taker(url: str, times: str, many: str = "1") -> subprocess.Popen[str]:
    command = [sys.executable, str(CLIENT), url, times, many]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_hundred_processes_wait_within_the_limit_of_connections() -> None:
    with PostgresServer(connections=250) as server:
        database = server.database()
        with locknut.connect(database.url, namespace="t") as locks:
            with locks.lock("x"):
                url = f"{database.url}?timeout=30&connect_timeout=60"  # on a busy machine
                takers = _taker(url, "1", "100")
                asked = "SELECT max(length(line)) FROM locknut_locks"
                line = 100 * 100  # bytes: a place in it has more
                eventually(lambda: database.ask(asked) > [(line,)], "not all wait", 150)
            out, _ = takers.communicate(timeout=100)
            assert sorted(out.split()) == ["done"] * 100 + ["ready"] * 100


def test_two_hundred_tasks_wait_with_ten_connections(database: Database) -> None:
    async def story() -> None:
        async with aio.connect(database.url, namespace="t") as locks:
            inside = most = 0

            async def work() -> None:
                nonlocal inside, most
                async with locks.lock("x", fair=True):
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0)
                    inside -= 1

            await asyncio.gather(*(work() for _ in range(200)))
            assert most == 1
            sessions = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database.name}'"
            assert len(database.ask(sessions)) <= 10 + 2 + 1  # the keeper's, the listener's, this

    asyncio.run(story())


def test_a_proxy_that_lends_sessions_is_noticed(
    pgbouncer: PgBouncer, database: Database, paint: Colour
) -> None:
    async def story() -> None:
        locks, others = (connect(paint, pgbouncer.url_of(database)) for _ in range(2))
        lease = await locks.lock("x").acquire()
        assert Capability.WAKE_UP not in locks.capabilities
        waiter = paint.spawn(lambda: others.lock("x").acquire(timeout=60))
        await until(paint, lambda: somebody_waits(database))
        await lease.release()
        assert (await waiter.result(60)).fence > lease.fence
        assert not listens(database)
        await locks.close()
        await others.close()

    paint.run(story())


def test_nothing_stays_in_the_sessions_of_a_proxy(pgbouncer: PgBouncer, database: Database) -> None:
    url = pgbouncer.url_of(database)
    with locknut.connect(url, namespace="t") as locks, locks.lock("x"), locks.all("y", "z"):
        pass
    with psycopg.connect(pgbouncer.url_of(database), autocommit=True) as stranger:
        assert stranger.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
        assert stranger.execute("SHOW statement_timeout").fetchone() == ("0",)
        assert stranger.execute("SHOW enable_seqscan").fetchone() == ("on",)


def test_a_proxy_that_keeps_sessions_wakes(
    postgresql_server: PostgresServer, database: Database
) -> None:
    with PgBouncer(postgresql_server, mode="session") as pool:
        url = f"{pool.url_of(database)}?pool_mode=session"
        with locknut.connect(url, namespace="t") as locks:
            with locks.lock("x"), locknut.connect(url, namespace="t") as others:
                assert others.lock("x").acquire(timeout=1.5) is None
                assert listens(database)
            assert Capability.WAKE_UP in locks.capabilities
