"""Sessions of which one end does not know what became of the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

import psycopg
import pymysql
import pytest

from locknut.backends.sql.session import backend as backend_of_sessions
from locknut.backends.sql.session import lock_owners, way_in
from locknut.backends.sql.session.session_port import gate_of
from locknut.backends.sql.table_port import Swap
from locknut.core.values import Busy, Granted, Mode, Renewal
from locknut.errors import BackendUnavailable
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.session.conftest import TABLE, backend, claim, connect, granted, until
from tests.servers.databases import Database

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("free", [True, False])
def test_a_wait_that_the_server_has_forgotten_is_begun_anew(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch, *, free: bool
) -> None:
    """A firewall dropped the connection, and the server has noticed, but nobody tells the client.
    It finds out when the lock is free and it does not get it; or, where the lock is always held,
    when the server has not answered for longer than it waits.
    """
    monkeypatch.setattr(way_in, "LOOK", 0.2)
    monkeypatch.setattr(way_in, "NET", 0.5)
    if not free:
        monkeypatch.setattr(way_in, "OVERDUE", -1e6)

    async def nothing_arrives() -> None: ...

    async def story() -> None:
        holders, waiters = connect(paint, database), connect(paint, database)
        lease = await holders.lock("x", ttl=60).acquire()
        waiter = paint.spawn(lambda: waiters.lock("x").acquire(timeout=60))
        waiting = waiters._client.backend._claims._by_id
        await until(paint, lambda: any(each.wait for each in list(waiting.values())))
        (first,) = list(waiting.values())
        first.session.waited = nothing_arrives
        database.server.end_session(first.session.number)
        if not free:
            begun = lambda: any(each is not first for each in list(waiting.values()))  # noqa: E731
            await until(paint, begun, "it waits for nothing")
        await lease.release()
        later = await waiter.result(60)
        assert later.fence > lease.fence
        await later.release()
        await holders.close()
        await waiters.close()

    paint.run(story())


@pytest.mark.parametrize("free", [True, False])
def test_a_reader_ends_an_earlier_session_of_its_own(
    database: Database, paint: Colour, *, free: bool
) -> None:
    """Its connection is dead, and the server does not know: the reader's lock still belongs to it.
    A renewal that found it there would tell a loss that is none.
    """

    async def story() -> None:
        client, others = backend(paint, database), backend(paint, database)
        await granted(paint, others, writer := claim())
        reader = claim(mode=Mode.SHARED)
        assert isinstance(await client.attempt(reader, 0.0), Busy)
        first = client._claims.use(reader.id)
        client._claims.forget(first)
        while not await first.session.stopped(0.1):  # it hears nothing before it has begun to wait
            await client._sessions.interrupt(first.session.number, first.wait)
        if not free:  # it waits once more, and has the gate without its own lock
            assert isinstance(await client.attempt(reader, 0.0), Busy)
        await others.release(writer)
        await granted(paint, client, reader)
        assert await client.renew([reader]) == [Renewal.HELD]
        assert first.session.number not in database.server.sessions()
        assert await client.release(reader)
        first.session.drop()
        await client.close()
        await others.close()

    paint.run(story())


def test_the_next_ones_lock_does_not_keep_a_hold_without_a_session(
    database: Database, paint: Colour
) -> None:
    """Our session was dropped, because an answer did not come. Somebody has the lock: not we."""

    async def story() -> None:
        one, other = backend(paint, database), backend(paint, database)
        holder, next_one = claim(), claim()
        await granted(paint, one, holder)
        one._claims.give_up(holder.id)
        while True:
            assert isinstance(await other.attempt(next_one, 0.0), Busy)
            if other._claims.get(next_one.id).at_gate:
                break
            await paint.pause(0.02)
        assert await one.renew([holder]) == [Renewal.LOST]
        await one.release(holder)
        await granted(paint, other, next_one)
        await other.release(next_one)
        await one.close()
        await other.close()

    paint.run(story())


def test_what_is_released_after_its_end_and_its_session_leaves_the_row(
    database: Database, paint: Colour
) -> None:
    """It would be there again if the clock of the database were set back."""

    async def story() -> None:
        client, holder = backend(paint, database), claim(ttl=0.2)
        await granted(paint, client, holder)
        client._claims.give_up(holder.id)
        await paint.pause(0.5)
        assert not await client.release(holder)
        assert database.ask(f"SELECT holders FROM {TABLE}") == [("",)]
        await client.close()

    paint.run(story())


def test_a_number_that_a_new_server_gives_again_is_not_ours(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL counts its connections from 1 after a restart: the next one in has our old number."""

    async def story() -> None:
        client, holder = backend(paint, database), claim()
        await granted(paint, client, holder)
        session = client._claims.get(holder.id).session

        async def as_before(locks: Sequence[bytes]) -> dict[bytes, int]:
            return dict.fromkeys(locks, session.number)

        monkeypatch.setattr(client._sessions, "owners", as_before)
        assert await client.renew([holder]) == [Renewal.HELD]
        database.server.end_session(session.number)
        await until(paint, lambda: not session.alive(), "it did not hear of it")
        assert await client.renew([holder]) == [Renewal.LOST]
        await client.release(holder)
        await client.close()

    paint.run(story())


@pytest.mark.parametrize("waits", [True, False])
def test_short_claims_together_end_a_session_that_is_stalled_at_the_gate(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    """A machine vanished while it waited, and the server gave it the lock. None of the next claims
    waits long enough to find that out by itself.
    """
    monkeypatch.setattr(lock_owners, "STALLED", 1.0)

    async def story() -> None:
        vanished, client = backend(paint, database), backend(paint, database)
        first, stalled = claim(), claim()
        await granted(paint, vanished, first)
        assert isinstance(await vanished.attempt(stalled, 0.0), Busy)
        await vanished.release(first)  # the lock is the stalled one's now, and nobody looks
        give_up = time.monotonic() + 30
        while isinstance(await client.attempt(short := claim(waits=waits), 0.0), Busy):
            await client.release(short)
            assert time.monotonic() < give_up, "nobody ends it"
            await paint.pause(0.1)
        await client.release(short)
        with suppress(BackendUnavailable):  # its session is gone
            await vanished.release(stalled)
        await vanished.close()
        await client.close()

    paint.run(story())


def test_a_renewal_that_meets_a_downgrade_is_no_loss(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has asked who has the gate; before the server looks, the holder has only its own lock."""

    async def story() -> None:
        client, holder = backend(paint, database), claim()
        await granted(paint, client, holder)
        owners = client._sessions.owners

        async def after_it(locks: Sequence[bytes]) -> dict[bytes, int]:
            monkeypatch.setattr(client._sessions, "owners", owners)
            assert await client.downgrade(holder)
            found: dict[bytes, int] = await owners(locks)
            return found

        monkeypatch.setattr(client._sessions, "owners", after_it)
        assert await client.renew([holder]) == [Renewal.HELD]
        await client.release(holder._replace(mode=Mode.SHARED))
        await client.close()

    paint.run(story())


def test_a_downgrade_without_an_answer_does_not_cost_the_hold(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is written on another connection: the session is in order, and keeps its locks."""

    async def story() -> None:
        client, other = backend(paint, database), backend(paint, database)
        holder, reader = claim(), claim(mode=Mode.SHARED)
        await granted(paint, client, holder)
        swap = client._table.swap

        async def unanswered(swaps: Sequence[Swap]) -> bool:
            await swap(swaps)
            raise BackendUnavailable("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(client._table, "swap", unanswered)
            with pytest.raises(BackendUnavailable):
                await client.downgrade(holder)
        assert await client.renew([holder]) == [Renewal.HELD]
        assert await client.downgrade(holder)
        reading = holder._replace(mode=Mode.SHARED)
        assert await client.renew([reading]) == [Renewal.HELD]
        assert isinstance(await granted(paint, other, reader), Granted)
        await other.release(reader)
        await client.release(reading)
        await client.close()
        await other.close()

    paint.run(story())


def _stranger_of(database: Database) -> Any:
    """A connection of somebody else who logs in as our user does."""
    server = database.server
    login: dict[str, Any] = {"user": database.user, "password": database.password}
    login.update(host=server.host, port=server.port)
    if server.scheme == "postgresql":
        return psycopg.connect(dbname=database.name, autocommit=True, **login)
    return pymysql.connect(database=database.name, **login)


def _asked(connection: Any, text: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchone()[0]


def _number_of(stranger: Any) -> int:
    asks = "pg_backend_pid()" if isinstance(stranger, psycopg.Connection) else "CONNECTION_ID()"
    return int(_asked(stranger, f"SELECT {asks}"))


def test_whoever_has_the_number_of_a_dead_session_is_not_ended(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We were stopped between the question who has a lock and the order to end that session; by
    then it has gone, and its number is a stranger's.
    """

    async def story() -> None:
        client, holder = backend(paint, database), claim()
        await granted(paint, client, holder)
        gate = gate_of(client._sessions.place, holder)
        with closing(_stranger_of(database)) as stranger:
            told = [{gate: _number_of(stranger)}]

            async def of_long_ago(_: Sequence[bytes]) -> dict[bytes, int]:
                return told.pop() if told else {}

            monkeypatch.setattr(client._sessions, "owners", of_long_ago)
            await client._owners.end_owner(gate)
            assert not told
            assert _asked(stranger, "SELECT 1") == 1, "the stranger was ended"
        monkeypatch.undo()
        assert await client.release(holder)
        await client.close()

    paint.run(story())


@pytest.mark.parametrize("home", ["ours", "another client's"])
def test_a_waiter_that_leaves_does_not_stop_whoever_has_its_number(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """The server was exchanged, and nobody told our connection: the new one counts its own."""
    monkeypatch.setattr(backend_of_sessions, "STOPS", 3)

    async def story() -> None:
        client, others = backend(paint, database), backend(paint, database)
        await granted(paint, others, holder := claim())
        await client.attempt(waiter := claim(), 0.0)
        used = client._claims.get(waiter.id)
        assert used.wait is not None
        with closing(_stranger_of(database)) as stranger:
            used.session.number = _number_of(stranger)
            if home != "ours":
                used.home = others._sessions
            sleeps = "pg_sleep(2)" if database.server.scheme == "postgresql" else "SLEEP(2)"
            broken: list[Exception] = []

            def work() -> None:
                try:
                    if _asked(stranger, f"SELECT {sleeps}") == 1:  # MySQL's way to say it
                        broken.append(InterruptedError())
                except (psycopg.Error, pymysql.MySQLError) as error:
                    broken.append(error)

            working = threading.Thread(target=work)
            working.start()
            await paint.pause(0.5)  # it has begun, or else there is nothing to be stopped
            await client.release(waiter)
            working.join()
            assert not broken
        assert await others.release(holder)
        await client.close()
        await others.close()

    paint.run(story())
