"""Two hundred clients wait at the server, and waits that the server breaks off as a deadlock."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pymysql
import pytest

import locknut
from locknut.backends.sql.mysql.named_lock_session import name_of
from locknut.backends.sql.postgresql.advisory_locks import number_of
from locknut.backends.sql.session.session_port import gate_of, lock_of
from locknut.core.values import Busy, Claim, Granted, Mode
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.session.conftest import (
    DATABASES,
    PATIENCE,
    SERVERS,
    backend,
    by_session,
    claim,
    granted,
    until,
)
from tests.servers.databases import Database
from tests.servers.mysql import MariaServer, MySqlServer
from tests.servers.sql import SqlServer

PROCESSES, CLIENTS = 10, 20
"""So many processes, and in each so many clients that know nothing of each other."""
PASSERS = """
import asyncio, sys
from locknut import aio

async def take():
    async with aio.connect(sys.argv[1]) as locks:
        async with locks.lock("x", timeout=600) as lease:
            return lease.fence

async def main():
    print(*await asyncio.gather(*(take() for _ in range(int(sys.argv[2])))))

asyncio.run(main())
"""


@pytest.fixture(params=DATABASES)
def large_server(request: pytest.FixtureRequest) -> Iterator[SqlServer]:
    """Each client has one connection that waits, and two for the rest."""
    with SERVERS[request.param](connections=3 * PROCESSES * CLIENTS + 50) as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_clients_wait_and_each_gets_it_once(large_server: SqlServer) -> None:
    with large_server.database() as database:
        url = by_session(database, connections=1, timeout=60)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", PASSERS, url, str(CLIENTS)]
        with locknut.connect(url) as locks, locks.lock("x", ttl=600):
            processes = [
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
                for _ in range(PROCESSES)
            ]
            give_up = time.monotonic() + 600
            while waiting(database) < PROCESSES * CLIENTS:
                assert time.monotonic() < give_up, "they do not wait"
                time.sleep(0.2)
        fences = [int(text) for each in processes for text in each.communicate()[0].split()]
        assert len(set(fences)) == PROCESSES * CLIENTS
        with locknut.connect(url) as locks:
            assert not locks.list()


def waiting(database: Database) -> int:
    """How many sessions wait for a lock."""
    asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    if database.server.scheme != "postgresql":
        asked = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
    return int(str(database.ask(asked)[0][0]))


class Stranger:
    """A session of somebody else's that takes the same locks, in the wrong order."""

    def __init__(self, database: Database):
        server = database.server
        self._mysql = isinstance(server, MariaServer | MySqlServer)
        self._connection: Any
        if self._mysql:
            self._connection = server.connect(database.name)  # type: ignore[attr-defined]
        else:
            self._connection = psycopg.connect(database.url, autocommit=True)

    def take(self, lock: bytes) -> None:
        taken = f"GET_LOCK({name_of(lock)}, 30)"
        if not self._mysql:
            taken = f"pg_advisory_lock({number_of(lock)})"
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT {taken}")
            cursor.fetchall()

    def close(self) -> None:
        self._connection.close()


def test_a_deadlock_that_the_server_breaks_is_no_error(database: Database, paint: Colour) -> None:
    """A reader waits at the gate, and a stranger that has the gate wants what the reader has. The
    server ends one of the two waits, whichever it likes: 1213 on MariaDB, 3058 on MySQL, 40P01 on
    PostgreSQL. The reader asks again, and gets in when the stranger has gone.
    """

    async def story() -> None:
        client = backend(paint, database)
        reader = claim(mode=Mode.SHARED)
        with closing(Stranger(database)) as stranger:
            stranger.take(gate_of(client._owners.place, reader))
            assert isinstance(await client.attempt(reader, 0.0), Busy)
            wait = _in_thread(lambda: stranger.take(lock_of(client._owners.place, reader)))
            broken = await _until_one_is_broken(paint, client, reader, wait)
            assert broken
        wait.join(PATIENCE)
        await granted(paint, client, reader)
        assert await client.release(reader)
        await client.close()

    paint.run(story())


async def _until_one_is_broken(
    paint: Colour, client: Any, reader: Claim, wait: threading.Thread
) -> bool:
    """The stranger's wait has ended, by an error or because the reader let go of its lock; or ours
    has, and was begun again.
    """
    number = client._claims.get(reader.id).session.number
    for _ in range(int(PATIENCE * 50)):
        answer = await client.attempt(reader, 0.0)
        assert not isinstance(answer, Granted), "the stranger has the gate"
        now = client._claims.get(reader.id)
        if not wait.is_alive() or now is None or now.session.number != number:
            return True
        await paint.pause(0.02)
    return False


def test_a_wait_that_closes_the_circle(database: Database, paint: Colour) -> None:
    """The same the other way round: the stranger waits first, and then it is our wait that MariaDB
    and PostgreSQL end. MySQL ends the stranger's, and in the story above ours.
    """

    async def story() -> None:
        client = backend(paint, database)
        session = await client._sessions.open()
        own, gate = secrets.token_bytes(16), secrets.token_bytes(16)
        await session.keep(own)
        with closing(patient_stranger(database)) as stranger:
            stranger.take(gate)
            wait = _in_thread(lambda: stranger.take(own))
            await until(paint, lambda: waiting(database), "the stranger does not wait")
            await session.wait(gate)
            got = None
            while got is None and wait.is_alive():
                got = await session.waited()
                await paint.pause(0.02)
            if database.server.scheme != "mysql":
                assert got is False, "it was told as what it is: not got"
            await session.free(None) if got is not None else session.drop()
        wait.join(PATIENCE)
        await client.close()

    paint.run(story())


def patient_stranger(database: Database) -> Stranger:
    """PostgreSQL looks for a circle when a wait has lasted for this long, and only then."""
    if database.server.scheme != "postgresql":
        return Stranger(database)
    database.ask(f"ALTER ROLE {database.user} SET deadlock_timeout = '60s'")
    try:
        return Stranger(database)
    finally:
        database.ask(f"ALTER ROLE {database.user} RESET deadlock_timeout")


def _in_thread(work: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        with suppress(pymysql.MySQLError, psycopg.Error):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
