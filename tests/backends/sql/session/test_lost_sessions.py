"""A session ends while its holder is at work: the holder is told, and the next one waits for that.

The server frees the lock at once. Who believes the server alone is granted what another one still
has.
"""

from __future__ import annotations

import time

import pytest

from locknut.backends.sql.session import lock_owners
from locknut.core.values import Busy, Granted, Mode, Renewal
from locknut.errors import BackendError
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.session.conftest import (
    TABLE,
    backend,
    claim,
    connect,
    granted,
    session_of,
    until,
)
from tests.servers.databases import Database
from tests.servers.sql import SqlServer

pytestmark = pytest.mark.faults
TTL = 3.0
"""Counted by the time of day, as the databases do: a machine may set it forward, bit by bit."""


@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.SHARED])
@pytest.mark.slow
def test_the_next_one_waits_until_the_hold_has_run_out(
    database: Database, paint: Colour, mode: Mode
) -> None:
    async def story() -> None:
        one, other = backend(paint, database), backend(paint, database)
        holder, next_one = claim(ttl=TTL, mode=mode), claim(ttl=TTL)
        first = await one.attempt(holder, 0.0)
        assert isinstance(first, Granted)
        assert isinstance(await other.attempt(next_one, 0.0), Busy)
        renewed = time.time()
        assert await one.renew([holder]) == [Renewal.HELD]
        database.server.end_session(session_of(one, holder))
        second = await granted(paint, other, next_one)
        assert time.time() - renewed >= TTL, "granted while the first one may believe in it"
        assert second.raw > first.raw
        assert await one.renew([holder]) == [Renewal.LOST]
        await other.release(next_one)
        await one.close()
        await other.close()

    paint.run(story())


def test_a_renewal_does_not_keep_what_has_no_session(database: Database, paint: Colour) -> None:
    """The row is still there, and would be extended."""

    async def story() -> None:
        client, holder = backend(paint, database), claim()
        assert isinstance(await client.attempt(holder, 0.0), Granted)
        database.server.end_session(session_of(client, holder))
        assert await client.renew([holder]) == [Renewal.LOST]
        assert not client._claims.get(holder.id).session.alive()
        assert await client.release(holder), "it was still in the row"
        await client.close()

    paint.run(story())


@pytest.mark.slow
def test_the_holder_is_told_at_once(database: Database, paint: Colour) -> None:
    """Long before its next renewal; then it gives the row back, and the next one comes in."""

    async def story() -> None:
        locks, others = connect(paint, database), connect(paint, database)
        lease = await locks.lock("x", ttl=120).acquire()
        waiter = paint.spawn(lambda: others.lock("x").acquire(timeout=60))
        database.server.end_session(session_of(locks._client.backend, lease._hold.claim))
        assert await lease.lost.wait(20)
        assert not lease.held
        later = await waiter.result(60)
        assert later.fence > lease.fence
        await later.release()
        await locks.close()
        await others.close()

    paint.run(story())


def test_a_number_is_not_taken_back_with_the_session(database: Database, paint: Colour) -> None:
    """S13: where the clock is behind, the next number is the last one plus one. If a grant's number
    were undone with its session, it would be given again.
    """

    async def story() -> None:
        client, holder, later = backend(paint, database), claim(ttl=0.5), claim()
        raw = (await granted(paint, client, holder)).raw
        await client.release(holder)
        database.ask(f"UPDATE {TABLE} SET fence = {raw * 2}")
        first = await granted(paint, client, holder := claim(ttl=0.5))
        assert first.raw == raw * 2 + 1
        database.server.end_session(session_of(client, holder))
        assert (await granted(paint, client, later)).raw == raw * 2 + 2
        await client.release(later)
        await client.close()

    paint.run(story())


def test_a_waiter_whose_session_is_ended_waits_on(database: Database, paint: Colour) -> None:
    async def story() -> None:
        locks, others = connect(paint, database), connect(paint, database)
        lease = await locks.lock("x").acquire()
        waiter = paint.spawn(lambda: others.lock("x").acquire(timeout=60))
        waiting = others._client.backend._claims._by_id
        await until(paint, lambda: any(each.wait for each in list(waiting.values())))
        (first,) = [each.session.number for each in waiting.values()]
        database.server.end_session(first)
        await until(paint, lambda: any(e.session.number != first for e in list(waiting.values())))
        await lease.release()
        later = await waiter.result(60)
        await later.release()
        await locks.close()
        await others.close()

    paint.run(story())


def test_a_hold_that_nobody_renews_ends_though_its_session_lives(
    database: Database, paint: Colour
) -> None:
    """Its process was stopped, or its machine vanished: the server cannot know. Whoever waits ends
    that session.
    """

    async def story() -> None:
        stopped, client = backend(paint, database), backend(paint, database)
        holder, next_one, third = claim(ttl=1.0), claim(), claim(waits=False)
        sent = time.time()
        assert isinstance(await stopped.attempt(holder, 0.0), Granted)
        assert isinstance(await client.attempt(third, 0.0), Busy)
        await granted(paint, client, next_one)
        assert time.time() - sent >= 1.0
        assert session_of(stopped, holder) not in database.server.sessions()
        assert await stopped.renew([holder]) == [Renewal.LOST]
        assert not await stopped.release(holder)
        await client.release(next_one)
        await stopped.close()
        await client.close()

    paint.run(story())


def test_who_does_not_wait_gets_what_has_run_out(database: Database, paint: Colour) -> None:
    async def story() -> None:
        stopped, client = backend(paint, database), backend(paint, database)
        await granted(paint, stopped, claim(ttl=0.5))
        await granted(paint, client, attempt := claim(waits=False))
        await client.release(attempt)
        await stopped.close()
        await client.close()

    paint.run(story())


def test_a_session_of_another_user_is_named(database: Database, paint: Colour) -> None:
    """It has outlived its hold, and only its own user may end it."""

    async def story() -> None:
        stopped, holder = backend(paint, database), claim(ttl=0.5)
        await granted(paint, stopped, holder)
        table = TABLE if database.server.scheme == "postgresql" else f"{database.name}.{TABLE}"
        other = backend(paint, database.login("other", f"SELECT, INSERT, UPDATE ON {table}"))
        await paint.pause(1.0)
        with pytest.raises(BackendError, match="is another user's"):
            await other.attempt(claim(), 0.0)
        await stopped.release(holder)
        await granted(paint, other, later := claim())
        await other.release(later)
        await stopped.close()
        await other.close()

    paint.run(story())


def test_one_that_is_stopped_between_lock_and_row_is_not_waited_for_for_ever(
    database: Database, paint: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_owners, "STALLED", 1.0)

    async def story() -> None:
        stopped, client = backend(paint, database), backend(paint, database)
        stalled, next_one = claim(), claim()
        await granted(paint, stopped, first := claim())
        assert isinstance(await stopped.attempt(stalled, 0.0), Busy)  # from now on it waits
        await stopped.release(first)  # and has the lock, but nobody looks
        await granted(paint, client, next_one)
        await client.release(next_one)
        await stopped.release(stalled)
        await stopped.close()
        await client.close()

    paint.run(story())


@pytest.mark.slow
def test_the_server_is_killed_and_comes_back(own_server: SqlServer, paint: Colour) -> None:
    """All its sessions are gone: holders are told, and nobody is let in before that."""

    async def story() -> None:
        database = own_server.database()
        locks, others = connect(paint, database), connect(paint, database)
        one, holder = backend(paint, database), claim("y", ttl=TTL)
        lease = await locks.lock("x", ttl=60).acquire()
        await granted(paint, one, holder)
        renewed = time.time()
        assert await one.renew([holder]) == [Renewal.HELD]
        own_server.restart(keep_data=True)
        other = backend(paint, database)
        await granted(paint, other, later := claim("y"))
        assert time.time() - renewed >= TTL
        assert await lease.lost.wait(60)
        again = await others.lock("x").acquire(timeout=60)
        assert again.fence > lease.fence
        await again.release()
        await other.release(later)
        for each in (locks, others, one, other):
            await each.close()

    paint.run(story())
