"""A lock of a session's transaction ends after it: committed, rolled back or closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import locknut
from locknut import aio
from locknut.contrib.sqlalchemy import aio as for_asyncio
from locknut.contrib.sqlalchemy import guard_transactions, lock_transaction
from locknut.guards.sql import create_table
from tests.guards.sql_databases import KINDS, Database

ADD = text("UPDATE stock SET amount = amount + 1")
AMOUNT = text("SELECT amount FROM stock")
Ways = dict[str, Callable[[Any], Any]]
ENDS: Ways = {
    "commit": lambda session: session.commit(),
    "rollback": lambda session: session.rollback(),
    "close": lambda session: session.close(),
}
every_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


@pytest.fixture
def locks() -> Iterator[locknut.Locks]:
    with locknut.connect("memory:") as made:
        yield made


on_servers = pytest.mark.parametrize(
    "database",
    [
        pytest.param("sqlite", marks=pytest.mark.sqlite),
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow]),
    ],
    indirect=True,
)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """SQLite, unless the test names a server."""
    name = getattr(request, "param", "sqlite")
    at = tmp_path if name == "sqlite" else request.getfixturevalue(f"{name}_database")
    return KINDS[name](at)


@pytest.fixture
def engine(database: Database) -> Iterator[Engine]:
    made = create_engine(database.url(awaits=False))
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE stock (amount INTEGER)"))
        connection.execute(text("INSERT INTO stock VALUES (0)"))
        create_table(connection)
    yield made
    made.dispose()


def amount(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(AMOUNT).scalar_one())


def is_held(locks: locknut.Locks, name: str = "stock") -> bool:
    return locks.info(name).locked


@every_end
def test_it_lasts_as_long_as_the_transaction(
    locks: locknut.Locks, engine: Engine, end: Callable[[Session], None]
) -> None:
    with Session(engine) as session:
        lease = lock_transaction(session, locks.lock("stock"))
        session.execute(ADD)
        with session.begin_nested():
            session.execute(ADD)
        assert lease.held  # a savepoint is not the end
        end(session)
        assert lease.state == "released"
        lock_transaction(session, locks.lock("stock"))
        assert is_held(locks)
    assert not is_held(locks)


@on_servers
def test_it_is_released_only_when_others_see_the_commit(
    locks: locknut.Locks, engine: Engine
) -> None:
    seen: list[int] = []

    def next_one() -> None:
        with locks.lock("stock"):
            seen.append(amount(engine))

    with Session(engine) as session, session.begin():
        lock_transaction(session, locks.lock("stock"))
        session.execute(ADD)
        waiting = threading.Thread(target=next_one)
        waiting.start()
    waiting.join()
    assert seen == [1]


def test_a_body_that_raises_is_rolled_back_and_then_unlocked(
    locks: locknut.Locks, engine: Engine
) -> None:
    with suppress(KeyError), Session(engine) as session, session.begin():
        lock_transaction(session, locks.lock("stock"))
        session.execute(ADD)
        raise KeyError
    assert (amount(engine), is_held(locks)) == (0, False)


@on_servers
def test_a_lock_that_was_lost_is_not_committed(locks: locknut.Locks, engine: Engine) -> None:
    with pytest.raises(locknut.LeaseLost), Session(engine) as session, session.begin():  # noqa: PT012
        lease = lock_transaction(session, locks.lock("stock"))
        session.execute(ADD)
        locks.force_release("stock")
        assert lease.lost.wait(60)
    assert amount(engine) == 0


def test_a_busy_lock_says_who_has_it_and_leaves_the_session_alone(
    locks: locknut.Locks, engine: Engine, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/locks"
    other = locknut.connect(url, label="ann")
    with locknut.connect(url) as one, other, other.lock("stock"), Session(engine) as session:
        with pytest.raises(locknut.AcquireTimeout, match="held by ann"):
            lock_transaction(session, one.lock("stock", timeout=0))
        session.execute(ADD)
        session.commit()
    assert amount(engine) == 1


def test_several_locks_and_one_twice(locks: locknut.Locks, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        lock_transaction(session, locks.lock("stock"))
        lock_transaction(session, locks.lock("stock"))
        lock_transaction(session, locks.rwlock("prices").read())
        assert is_held(locks)
        assert is_held(locks, "prices")
    assert not is_held(locks)
    assert not is_held(locks, "prices")


def test_an_error_of_the_release_does_not_look_like_a_failed_commit(
    locks: locknut.Locks, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with Session(engine) as session:
        lease = lock_transaction(session, locks.lock("stock"))
        session.execute(ADD)
        lease.release()  # by mistake
        lock_transaction(session, locks.lock("other"))
        with pytest.raises(locknut.NotHeld):
            session.commit()  # before the commit it is an error,
        session.rollback()  # and after the end a line in the log
    assert "lock 'stock' after a transaction" in caplog.text
    assert not is_held(locks, "other")


def test_scoped_sessions_have_it_too(locks: locknut.Locks, engine: Engine) -> None:
    sessions = scoped_session(sessionmaker(engine))
    lock_transaction(sessions, locks.lock("stock"))
    assert is_held(locks)
    sessions.remove()
    assert not is_held(locks)


def test_a_transaction_that_ends_later_is_refused(locks: locknut.Locks, engine: Engine) -> None:
    with engine.begin() as connection, Session(connection) as session:
        with pytest.raises(locknut.ConfigurationError, match="around that transaction"):
            lock_transaction(session, locks.lock("stock"))
        with pytest.raises(locknut.ConfigurationError, match="not re-entrant"):
            lock_transaction(session, locks.semaphore("stock", 3))
    assert not is_held(locks)


@on_servers
def test_the_guard_refuses_an_older_fence(locks: locknut.Locks, engine: Engine) -> None:
    """The older one had its lock, fell asleep, and enters with its lease after the newer one."""
    with locks.lock("stock") as asleep:
        pass
    with Session(engine) as session, session.begin():
        lock_transaction(session, locks.lock("stock"), guard=True)
        session.execute(ADD)
    with pytest.raises(locknut.StaleFence), Session(engine) as session:  # noqa: SIM117
        with guard_transactions(session, asleep), session.begin():
            session.execute(ADD)
    assert amount(engine) == 1


@on_servers
def test_every_transaction_inside_is_guarded(locks: locknut.Locks, engine: Engine) -> None:
    lease = locks.lock("stock").acquire()
    assert lease is not None
    with Session(engine) as session:
        with guard_transactions(session, lease):
            session.execute(ADD)
            session.commit()
            with session.begin_nested():
                session.execute(ADD)
            session.commit()
            locks.force_release("stock")
            assert lease.lost.wait(60)
            session.execute(ADD)
            with pytest.raises(locknut.LeaseLost):
                session.commit()
            session.rollback()
            with locks.lock("stock") as newer, Session(engine) as other:
                with guard_transactions(other, newer), other.begin():
                    other.execute(ADD)
                with pytest.raises(locknut.StaleFence):
                    session.execute(AMOUNT)  # before the first read
            session.rollback()
        session.execute(ADD)  # outside it is a session as any other
        session.commit()
    assert amount(engine) == 4


def test_a_transaction_that_may_have_read_is_not_guarded(
    locks: locknut.Locks, engine: Engine
) -> None:
    with locks.lock("stock") as lease, Session(engine) as session:
        session.execute(AMOUNT)
        with pytest.raises(locknut.ConfigurationError, match="comes first"):  # noqa: SIM117
            with guard_transactions(session, lease):
                pass


@on_servers
@every_end
@pytest.mark.usefixtures("engine")
def test_it_is_the_same_awaited(database: Database, end: Callable[[AsyncSession], Any]) -> None:
    async def main() -> None:
        awaited = create_async_engine(database.url(awaits=True))
        async with aio.connect("memory:") as locks, AsyncSession(awaited) as session:
            lease = await for_asyncio.lock_transaction(session, locks.lock("stock"), guard=True)
            await session.execute(ADD)
            assert lease.held
            await end(session)
            assert lease.state == "released"
            lease = await for_asyncio.lock_transaction(session, locks.lock("stock"))
            assert await locks.force_release("stock")
            await lease.lost.wait()
            with pytest.raises(locknut.LeaseLost):
                await session.commit()
            await session.rollback()
            async with locks.lock("stock", timeout=0) as asleep:
                pass
            async with locks.lock("stock", timeout=0) as newer:
                with for_asyncio.guard_transactions(session, newer):
                    await session.execute(ADD)
                    await session.commit()
                with for_asyncio.guard_transactions(session, asleep):
                    with pytest.raises(locknut.StaleFence):
                        await session.execute(AMOUNT)
                    await session.rollback()
        await awaited.dispose()

    asyncio.run(main())


@pytest.mark.usefixtures("engine")
def test_a_task_that_is_cancelled_as_it_unlocks_unlocks_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = aio.Lease.release

    async def release(lease: aio.Lease) -> None:
        await real(lease)
        if lease.name == "prices":
            raise asyncio.CancelledError

    async def main() -> None:
        awaited = create_async_engine(database.url(awaits=True))
        async with aio.connect("memory:") as locks, AsyncSession(awaited) as session:
            held = [
                await for_asyncio.lock_transaction(session, locks.lock(name))
                for name in ("stock", "prices")
            ]
            monkeypatch.setattr(aio.Lease, "release", release)
            with pytest.raises(asyncio.CancelledError):
                await session.commit()
            assert [each.state for each in held] == ["released", "released"]
        await awaited.dispose()

    asyncio.run(main())


@pytest.mark.usefixtures("engine")
def test_a_busy_lock_is_a_timeout_awaited(database: Database) -> None:
    async def main() -> None:
        awaited = create_async_engine(database.url(awaits=True))
        async with aio.connect("memory:") as locks, AsyncSession(awaited) as session:

            async def other() -> None:
                with pytest.raises(locknut.AcquireTimeout):
                    await for_asyncio.lock_transaction(session, locks.lock("stock", timeout=0))

            async with locks.lock("stock"):
                await asyncio.create_task(other())
            assert not session.in_transaction()
        await awaited.dispose()

    asyncio.run(main())
