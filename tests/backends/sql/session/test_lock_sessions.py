"""Sessions are bounded, one for each hold and waiter, and no name is in the way of another."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing

import pytest

import locknut
from locknut import aio
from locknut.backends.sql.session.session_port import gate_of
from locknut.core.values import Busy, Granted, Mode
from locknut.errors import BackendUnavailable, ConfigurationError
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.session.conftest import (
    TABLE,
    backend,
    by_session,
    claim,
    connect,
    granted,
    session_of,
    until,
)
from tests.forks.child import in_child
from tests.servers.databases import Database
from tests.servers.sql import SqlServer

COMMANDS = 2
"""Connections of a Locks beside those of its locks."""


@pytest.mark.parametrize("rows", [1, 10])
def test_no_other_name_is_blocked(database: Database, paint: Colour, rows: int) -> None:
    """Neither by a holder nor by those who wait, however few rows the table has."""

    async def story() -> None:
        client, others = backend(paint, database), backend(paint, database, connections=30)
        for number in range(rows):
            await granted(paint, client, each := claim(f"x{number}"))
            await client.release(each)
        await granted(paint, client, held := claim("x0"))
        waiter = claim("x0")
        assert isinstance(await others.attempt(waiter, 0.0), Busy)
        free = [claim(f"x{number}") for number in range(1, rows)]
        free += [claim("new"), claim("X0"), claim("x0 "), claim("x", mode=Mode.SHARED)]
        for each in free:
            assert isinstance(await others.attempt(each, 0.0), Granted), each.key
        for each in (*free, waiter):
            await others.release(each)
        await client.release(held)
        await client.close()
        await others.close()

    paint.run(story())


def test_readers_come_in_beside_each_other(database: Database, paint: Colour) -> None:
    """And a writer that waits for them keeps later ones out."""

    async def story() -> None:
        client, others = backend(paint, database), backend(paint, database)
        readers = [claim(mode=Mode.SHARED) for _ in range(3)]
        for each in readers:
            assert isinstance(await client.attempt(each, 0.0), Granted)
        writer, late = claim(), claim(mode=Mode.SHARED)
        assert isinstance(await others.attempt(writer, 0.0), Busy)
        assert isinstance(await client.attempt(late, 0.0), Busy)
        for each in readers:
            await client.release(each)
        await granted(paint, others, writer)
        await others.release(writer)
        await granted(paint, client, late)
        await client.release(late)
        await client.close()
        await others.close()

    paint.run(story())


def test_a_name_that_was_taken_before_is_taken_with_its_gate(
    database: Database, paint: Colour
) -> None:
    """By one statement, and once: a gate that was taken twice would stay shut when it is freed."""

    async def story() -> None:
        client, others = backend(paint, database), backend(paint, database)
        for _ in range(3):
            await granted(paint, client, each := claim())
            await client.release(each)
        await granted(paint, client, held := claim())
        gate = gate_of(client._sessions.place, held)
        assert await client._sessions.owners([gate]) == {gate: session_of(client, held)}
        reader = claim(mode=Mode.SHARED, waits=False)
        assert isinstance(await others.attempt(reader, 0.0), Busy)
        assert await client.downgrade(held)
        assert await client._sessions.owners([gate]) == {}
        await granted(paint, others, reader)
        writer = claim(waits=False)
        assert isinstance(await client.attempt(writer, 0.0), Busy), "a reader leaves, one is there"
        assert await client.release(held)
        assert await others.release(reader)
        await granted(paint, client, writer)
        await client.release(writer)
        await client.close()
        await others.close()

    paint.run(story())


@pytest.mark.slow
def test_when_all_connections_hold_locks_that_is_said(database: Database, paint: Colour) -> None:
    async def story() -> None:
        locks = connect(paint, database, connections=2)
        leases = [await locks.lock(name).acquire() for name in "ab"]
        began = time.monotonic()
        with pytest.raises(BackendUnavailable, match="all 2 connections hold locks or wait"):
            await locks.lock("c").acquire(timeout=4)
        assert time.monotonic() - began < 20
        await leases[0].release()
        async with locks.lock("c", timeout=30):
            assert leases[1].held
        await leases[1].release()
        await locks.close()

    paint.run(story())


@pytest.mark.slow
def test_a_server_that_is_full_says_so(own_server: SqlServer, paint: Colour) -> None:
    async def story() -> None:
        database = own_server.database()
        locks = connect(paint, database, connections=30)
        lease = await locks.lock("x").acquire()

        async def take_many() -> None:
            for number in range(30):
                await locks.lock(f"y{number}", ttl=60).acquire(timeout=3)

        with pytest.raises(BackendUnavailable):
            await take_many()
        assert lease.held
        await lease.renew()
        await locks.close()
        later = connect(paint, database)
        async with later.lock("x", timeout=30):
            pass
        await later.close()

    paint.run(story())


def test_two_hundred_tasks_wait_on_one_connection(database: Database) -> None:
    async def story() -> None:
        async with (
            aio.connect(by_session(database, connections=3)) as locks,
            aio.connect(by_session(database)) as others,
        ):
            before = len(database.server.sessions())
            most, done = 0, 0
            waiting = asyncio.Event()
            locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)

            async def work() -> None:
                nonlocal most, done
                async with locks.lock("x", timeout=120):
                    done += 1
                    if done % 20 == 0:
                        most = max(most, len(database.server.sessions()) - before)

            async with others.lock("x"):
                tasks = [asyncio.create_task(work()) for _ in range(200)]
                await waiting.wait()
            await asyncio.gather(*tasks)
            assert done == 200
            assert most <= 3 + COMMANDS + 1 + COMMANDS

    asyncio.run(story())


def test_a_waiter_that_gives_up_leaves_nothing(database: Database, paint: Colour) -> None:
    """Not in the server's line either: the next one would wait for nobody."""

    async def story() -> None:
        client, others = backend(paint, database), backend(paint, database)
        await granted(paint, client, held := claim())
        for mode in Mode.EXCLUSIVE, Mode.SHARED:
            waiter = claim(mode=mode)
            assert isinstance(await others.attempt(waiter, 0.0), Busy)
            assert not await others.release(waiter)
        await client.release(held)
        for each in claim(waits=False), claim(mode=Mode.SHARED, waits=False):
            assert isinstance(await client.attempt(each, 0.0), Granted)
            await client.release(each)
        await client.close()
        await others.close()

    paint.run(story())


def test_a_timeout_is_kept_and_a_release_wakes(database: Database, paint: Colour) -> None:
    async def story() -> None:
        locks, others = connect(paint, database), connect(paint, database)
        waiting = others._client.backend._claims._by_id
        best = 60.0
        for _ in range(5):
            lease = await locks.lock("x").acquire(timeout=60)
            began = time.monotonic()
            assert await others.lock("x").acquire(timeout=0.3) is None
            assert time.monotonic() - began < 5
            waiter = paint.spawn(lambda: others.lock("x").acquire(timeout=60))
            await until(paint, lambda: any(each.wait for each in list(waiting.values())))
            began = time.monotonic()
            await lease.release()
            held = await waiter.result(60)
            best = min(best, time.monotonic() - began)
            await held.release()
        assert best < 2.5, "by itself it looks after 5 s"
        await locks.close()
        await others.close()

    paint.run(story())


def test_a_break_ends_the_session(database: Database, paint: Colour) -> None:
    async def story() -> None:
        one, other = backend(paint, database), backend(paint, database)
        await granted(paint, one, holder := claim())
        number = session_of(one, holder)
        waiter = claim()
        assert isinstance(await other.attempt(waiter, 0.0), Busy)
        assert await other.break_hold(holder.key, None, "stuck") is not None
        assert number not in database.server.sessions()
        assert isinstance(await granted(paint, other, waiter), Granted)
        ((answer),) = await one.renew([holder])
        assert getattr(answer, "note", "") == "stuck"
        await other.release(waiter)
        await one.close()
        await other.close()

    paint.run(story())


def test_lease_mode_and_session_mode_exclude_each_other(database: Database) -> None:
    """The row is the truth for both."""
    with (
        locknut.connect(by_session(database)) as sessions,
        locknut.connect(database.url) as leases,
        locknut.connect(database.url) as writers,
    ):
        with sessions.lock("x"):
            assert leases.lock("x").acquire(timeout=0) is None
        with leases.lock("x"):
            assert sessions.lock("x").acquire(timeout=0) is None
        with sessions.rwlock("y").read(), leases.rwlock("y").read():
            assert writers.rwlock("y").write().acquire(timeout=0) is None
        with sessions.lock("x", timeout=30):
            pass


@pytest.mark.faults
def test_a_forked_child_has_other_sessions(database: Database) -> None:
    with locknut.connect(by_session(database)) as locks, locks.lock("x", ttl=20) as lease:
        before = database.server.sessions()

        def child() -> None:
            for own in (locks, locknut.connect(by_session(database))):
                assert own.lock("x").acquire(timeout=0) is None
                with own.lock("y", timeout=10):
                    pass

        in_child(child)
        assert set(before) <= set(database.server.sessions()), "the child ended the parent's"
        lease.renew()


def test_another_mode_is_refused(database: Database) -> None:
    with pytest.raises(ConfigurationError, match="mode must be lease or session"):
        locknut.connect(f"{database.url}?mode=advisory")


@pytest.mark.slow
def test_a_row_that_a_stranger_has_locked_is_named(database: Database, paint: Colour) -> None:
    """55P03 and 1205: what was undone is tried again, and then given up; nothing stays behind."""

    async def story() -> None:
        client = backend(paint, database, timeout=1.5)
        await granted(paint, client, first := claim())
        await client.release(first)
        with closing(database.server.connect(database.name)) as other:  # type: ignore[attr-defined]
            cursor = other.cursor()
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT * FROM {TABLE} FOR UPDATE")
            asked = claim()
            with pytest.raises(BackendUnavailable):
                await client.attempt(asked, 0.0)
            cursor.execute("ROLLBACK")
        await client.release(asked, outcome_unknown=True)
        await granted(paint, client, later := claim())
        await client.release(later)
        await client.close()

    paint.run(story())
