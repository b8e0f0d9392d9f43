"""A transaction that is committed only while the lock, in the same database, is held."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import locknut
from locknut.errors import BackendError, ConfigurationError, LeaseLost, NotHeld, Unsupported
from locknut.guards.sql import aio, while_held
from tests.guards.sql_databases import KINDS, Database, at, on
from tests.guards.sql_holders import NAME, Holder

SERVERS = tuple(name for name in KINDS if name != "sqlite")
every_server = on(*SERVERS)
every_way = pytest.mark.parametrize(
    ("database", "way"),
    [
        pytest.param(name, way, marks=getattr(pytest.mark, name))
        for name in SERVERS
        for way in KINDS[name].ways
    ],
    indirect=["database"],
)


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def locks(database: Database) -> Iterator[locknut.Locks]:
    with locknut.connect(database.place.url) as made:
        yield made


@contextmanager
def bound(holder: Holder, lease: locknut.Lease) -> Iterator[None]:
    """The same in both colours; the transaction is committed, or rolled back."""
    try:
        if inspect.iscoroutinefunction(holder.connection.commit):
            awaits = aio.while_held(holder.connection, lease)
            holder.done(awaits.__aenter__())
            yield
            holder.done(awaits.__aexit__(None, None, None))
        else:
            with while_held(holder.connection, lease):
                yield
    except BaseException:
        holder.rollback()
        raise
    holder.commit()


@every_way
def test_work_is_committed_while_the_lock_is_held(
    database: Database, locks: locknut.Locks, way: str, ends: ExitStack
) -> None:
    holder = ends.enter_context(database.holder(way))
    with locks.lock(NAME) as lease:
        for _ in range(2):
            with bound(holder, lease):
                holder.write(holder.read() - 1)
                lease.renew()  # the row is free for it
    assert holder.read() == 98


@every_way
def test_nothing_is_committed_once_the_lock_was_taken_away(
    database: Database, locks: locknut.Locks, way: str, ends: ExitStack
) -> None:
    """Its holder has not heard of it yet, and works on."""
    holder = ends.enter_context(database.holder(way))
    other = ends.enter_context(locknut.connect(database.place.url))
    lease = locks.lock(NAME).acquire()
    assert lease is not None
    with pytest.raises(LeaseLost, match="lost during the transaction"), bound(holder, lease):  # noqa: PT012
        holder.write(0)
        assert other.force_release(NAME)
        other.lock(NAME, timeout=60).acquire()
    assert holder.read() == 100


@every_server
def test_nobody_gets_the_lock_between_the_check_and_the_commit(
    database: Database, locks: locknut.Locks, ends: ExitStack
) -> None:
    holder = ends.enter_context(database.holder())
    other = ends.enter_context(locknut.connect(database.place.url + "?timeout=60s"))
    aside = ends.enter_context(ThreadPoolExecutor(1))
    lease = locks.lock(NAME).acquire()
    assert lease is not None
    with while_held(holder.connection, lease):
        holder.write(0)
    broken = aside.submit(other.force_release, NAME)
    database.until_waiting()
    holder.commit()
    assert broken.result()
    with pytest.raises(LeaseLost):
        lease.release()


@at("REPEATABLE READ")
def test_a_snapshot_that_is_older_than_the_hold_is_refused(
    database: Database, locks: locknut.Locks, level: str, ends: ExitStack
) -> None:
    """What it reads is from before the last holder's work."""
    late = ends.enter_context(database.holder(level=level))
    quick = ends.enter_context(database.holder())
    locks.lock("another").acquire()  # the table is there
    assert late.read() == 100
    with locks.lock(NAME) as lease, bound(quick, lease):
        quick.write(99)
    with locks.lock(NAME) as lease:
        with pytest.raises(BackendError, match="does not see the hold"), bound(late, lease):
            raise AssertionError("it came in")
        with bound(late, lease):
            late.write(late.read() - 1)
    assert quick.read() == 98


@on("postgresql")
def test_a_renewal_is_a_serialization_failure_where_snapshots_are_kept(
    database: Database, locks: locknut.Locks, ends: ExitStack
) -> None:
    """On PostgreSQL above READ COMMITTED: an error of the driver, and nothing is committed."""
    holder = ends.enter_context(database.holder(level="REPEATABLE READ"))
    with locks.lock(NAME) as lease:
        with pytest.raises(database.errors), bound(holder, lease):  # noqa: PT012
            holder.write(0)
            lease.renew()
        assert holder.read() == 100


@on("mariadb", "mysql")
def test_where_reads_lock_a_renewal_waits_for_the_commit(
    database: Database, ends: ExitStack
) -> None:
    holder = ends.enter_context(database.holder(level="SERIALIZABLE"))
    patient = ends.enter_context(locknut.connect(database.place.url + "?timeout=60s"))
    aside = ends.enter_context(ThreadPoolExecutor(1))
    lease = ends.enter_context(patient.lock(NAME))
    with bound(holder, lease):
        holder.write(99)
        renewed = aside.submit(lease.renew)
        database.until_waiting()
    renewed.result()
    assert holder.read() == 99


@every_server
def test_two_rights_on_the_table_of_locks_are_enough(
    database: Database, locks: locknut.Locks, ends: ExitStack
) -> None:
    lease = ends.enter_context(locks.lock(NAME))
    few = database.place.login("worker", "SELECT, UPDATE ON locknut_locks", "SELECT ON stock")
    holder = ends.enter_context(type(database)(few).holder())
    with bound(holder, lease):
        assert holder.read() == 100


@every_server
def test_without_a_transaction_it_is_refused(
    database: Database, locks: locknut.Locks, ends: ExitStack
) -> None:
    connection = ends.enter_context(closing(database.connect(autocommit=True)))
    lease = ends.enter_context(locks.lock(NAME))
    with pytest.raises(ConfigurationError, match="autocommit"), while_held(connection, lease):
        raise AssertionError("it came in")


@every_server
def test_errors_of_the_work_are_its_own(
    database: Database, locks: locknut.Locks, ends: ExitStack
) -> None:
    holder = ends.enter_context(database.holder())
    with locks.lock(NAME) as lease, pytest.raises(ZeroDivisionError), bound(holder, lease):
        holder.write(1 // 0)
    with pytest.raises(NotHeld), bound(holder, lease):
        raise AssertionError("it came in")
    assert holder.read() == 100


@pytest.mark.parametrize("kind", ["memory:", "sqlite:"])
def test_other_engines_say_that_they_cannot(kind: str, tmp_path: Path, ends: ExitStack) -> None:
    url = kind if kind == "memory:" else f"sqlite:///{tmp_path}/locks.db"
    lease = ends.enter_context(ends.enter_context(locknut.connect(url)).lock(NAME))
    with pytest.raises(Unsupported, match="keeps no hold"), while_held(None, lease):
        raise AssertionError("it came in")
