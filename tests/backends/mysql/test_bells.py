"""Who waits is woken by the named lock of the one before it, and looks by itself if that fails."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.sql.mysql import bell_ringer
from locknut.backends.sql.mysql.bell_chain import BellChain
from locknut.backends.sql.mysql.bell_ringer import BellRinger
from locknut.backends.sql.mysql.bell_sessions import BellSession
from locknut.urls import open_engine
from tests.backends.mysql.conftest import PATIENCE, acquired, eventually, in_thread, stranger_of
from tests.servers.databases import Database


def hung(database: Database) -> list[int]:
    """Connections that wait for a named lock just now."""
    told = database.ask(
        "SELECT id FROM information_schema.processlist WHERE state = 'User lock' AND db IS NOT NULL"
    )
    return [int(str(number)) for (number,) in told]


def bell_of(database: Database) -> str:
    """That of the holder."""
    ((holder,),) = database.ask("SELECT LEFT(holders, 12) FROM locknut_locks WHERE holders <> ''")
    return f"locknut:{holder}"


def is_hung(database: Database, name: str) -> bool:
    return database.ask(f"SELECT IS_USED_LOCK('{name}') IS NOT NULL") == [(1,)]


def test_the_first_waiter_behind_one_that_never_waited(database: Database) -> None:
    """Each on a client of its own, as in two processes: the waiter sleeps at the server."""
    with locknut.connect(database.url) as one, locknut.connect(database.url) as two:
        lease = acquired(one.lock("x"))
        name = bell_of(database)
        eventually(lambda: is_hung(database, name), "a hold that lasts has no bell")
        waiting = in_thread(lambda: two.lock("x").acquire(timeout=PATIENCE))
        eventually(lambda: bool(hung(database)), "nobody waits for the bell")
        asked = _statements(database)
        time.sleep(0.5)  # while nothing happens, hardly anything is asked
        assert _statements(database) - asked < 12
        lease.release()
        (got,) = waiting()
        assert got is not None
        assert not is_hung(database, name)
        got.release()  # type: ignore[attr-defined]


def _statements(database: Database) -> int:
    """`SHOW` and what asks for the number itself are counted too."""
    ((_, number),) = database.ask("SHOW GLOBAL STATUS LIKE 'Queries'")
    return int(str(number))


def test_a_short_hold_has_no_bell(database: Database) -> None:
    """Uncontended pairs are two statements: nothing is hung up for them."""
    with locknut.connect(database.url) as locks:
        acquired(locks.lock("x")).release()
        before = [database.ask(f"SHOW GLOBAL STATUS LIKE '{each}'") for each in _COUNTED]
        for _ in range(20):
            acquired(locks.lock("x")).release()
        after = [database.ask(f"SHOW GLOBAL STATUS LIKE '{each}'") for each in _COUNTED]
        grown = [int(str(b[0][1])) - int(str(a[0][1])) for a, b in zip(before, after, strict=True)]
        assert sum(grown) == 40


_COUNTED = ["Com_insert", "Com_update", "Com_select", "Com_do"]
"""A bell is hung up by SELECT GET_LOCK, and freed by DO RELEASE_LOCK."""


@pytest.mark.usefixtures("timeless")
def test_in_a_line_each_is_woken_in_its_turn(database: Database) -> None:
    clients = [locknut.connect(database.url) for _ in range(4)]
    order: list[int] = []
    first = acquired(clients[0].lock("x", fair=True))

    def take(number: int) -> None:
        with clients[number].lock("x", fair=True, timeout=PATIENCE):
            order.append(number)

    threads = []
    for number in range(1, 4):
        threads.append(threading.Thread(target=take, args=(number,)))
        threads[-1].start()
        eventually(
            lambda number=number: len(clients[0].info("x").waiters) == number,  # type: ignore[misc]
            "it does not stand in line",
        )
    first.release()
    for thread in threads:
        thread.join(PATIENCE)
    assert order == [1, 2, 3]
    for each in clients:
        each.close()


@pytest.mark.usefixtures("timeless")
def test_one_that_leaves_the_line_wakes_the_next(database: Database) -> None:
    """The one behind it is told at once whom it stands behind now."""
    one, two, three = (locknut.connect(database.url) for _ in range(3))
    lease = acquired(one.lock("x"))
    short = in_thread(lambda: two.lock("x").acquire(timeout=2))
    eventually(lambda: len(one.info("x").waiters) == 1, "the second does not wait")
    long = in_thread(lambda: three.lock("x").acquire(timeout=PATIENCE))
    assert short() == [None]
    lease.release()
    (got,) = long()
    assert got is not None
    got.release()  # type: ignore[attr-defined]
    for each in (one, two, three):
        each.close()


def test_bells_that_are_cut_off_are_hung_up_again(database: Database) -> None:
    """All connections are killed: nobody is stuck, and nobody loses its lock."""
    with locknut.connect(database.url) as one, locknut.connect(database.url) as two:
        lease = acquired(one.lock("x", ttl=600))
        waiting = in_thread(lambda: two.lock("x").acquire(timeout=PATIENCE))
        eventually(lambda: bool(hung(database)), "nobody waits for the bell")
        database.server.end_sessions()
        name = bell_of(database)
        eventually(lambda: is_hung(database, name), "the bell was not hung up again")
        lease.check()
        try:
            lease.release()
        except locknut.LeaseLost as lost:
            lost.add_note(
                f"the table: {database.ask('SELECT *, UTC_TIMESTAMP(6) FROM locknut_locks')}"
            )
            raise
        (got,) = waiting()
        assert got is not None
        got.release()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_200_tasks_wait_on_few_connections(database: Database) -> None:
    """Those of one process wake each other; the server sees no more connections than allowed."""

    async def story() -> None:
        async with aio.connect(f"{database.url}?connections=4") as locks:
            inside = 0

            async def work() -> None:
                nonlocal inside
                async with locks.lock("x", fair=True, timeout=300):
                    inside += 1
                    assert inside == 1
                    inside -= 1

            lease = await locks.lock("x", fair=True).acquire()
            assert lease is not None
            tasks = [asyncio.create_task(work()) for _ in range(200)]
            await asyncio.sleep(1)
            assert len(database.server.sessions()) <= 4 + 4 + 2
            await lease.release()
            await asyncio.gather(*tasks)

    asyncio.run(story())


@pytest.mark.usefixtures("timeless")
@pytest.mark.parametrize("shape", ["reader", "permit"])
def test_those_who_share_let_the_next_in(database: Database, shape: str) -> None:
    """A bell is freed when its claim gets in beside others, so that the next looks, too."""

    def ask(locks: locknut.Locks) -> locknut.Lease | None:
        if shape == "reader":
            return locks.rwlock("x").read().acquire(timeout=PATIENCE)
        return locks.semaphore("x", 3).acquire(timeout=PATIENCE)

    one, two, three = (locknut.connect(database.url) for _ in range(3))
    if shape == "reader":
        firsts = [acquired(one.rwlock("x").write())]
    else:
        firsts = [acquired(one.semaphore("x", 3)) for _ in range(3)]
    waits = [in_thread(lambda: ask(two)), in_thread(lambda: ask(three))]
    eventually(lambda: len(one.info("x").waiters) == 2, "they do not wait")
    for first in firsts:
        first.release()
    for wait in waits:
        (got,) = wait()
        assert got is not None
    for each in (two, three, one):
        each.close()


def test_many_holds_hang_up_bells_in_small_parts_and_not_without_end(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MariaDB takes the longer for one the more there are. It once kept a server busy for minutes,
    and all of the holds were lost.
    """
    asked: list[int] = []
    hang = BellSession.hang

    def note(self: BellSession, claim_ids: list[str]) -> None:
        asked.append(len(claim_ids))
        hang(self, claim_ids)

    monkeypatch.setattr(BellSession, "hang", note)
    monkeypatch.setattr(bell_ringer, "HUNG_AT_ONCE", 8)
    monkeypatch.setattr(bell_ringer, "MOST_HUNG", 20)
    with locknut.connect(database.url) as one, locknut.connect(database.url) as two:
        leases = [acquired(one.lock(f"x{number}", ttl=60)) for number in range(40)]
        eventually(lambda: len(_bells_hung(database)) == 20, "not all that may hang do")
        assert sum(asked) == 20
        assert max(asked) <= 8
        without = next(each for each in leases if not _has_bell(database, each.name))
        waiting = in_thread(lambda: two.lock(without.name).acquire(timeout=PATIENCE))
        eventually(lambda: bool(one.info(without.name).waiters), "it does not stand in line")
        for lease in leases:
            lease.release()
        (got,) = waiting()
        assert got is not None
        got.release()  # type: ignore[attr-defined]
        eventually(lambda: not _bells_hung(database), "a bell of nobody hangs")


def test_bells_that_a_dead_connection_has_are_hung_up_once_it_is_gone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a cut, of which the server does not know yet."""
    monkeypatch.setattr(bell_ringer, "MOMENT", 2.0)
    with locknut.connect(database.url) as locks:
        leases = [acquired(locks.lock(f"x{number}", ttl=60)) for number in range(3)]
        names = [name for _, name in _bells(database)]
        with closing(stranger_of(database)) as ghost, ghost.cursor() as cursor:
            cursor.execute("SELECT " + ", ".join(f"GET_LOCK('{name}', 0)" for name in names))
            monkeypatch.setattr(bell_ringer, "MOMENT", 0.03)
            own = acquired(locks.lock("own", ttl=60))  # it does not wait for the others
            eventually(lambda: _has_bell(database, own.name), "it has no bell")
        eventually(lambda: len(_bells_hung(database)) == 4, "they have no bells")
        for lease in (*leases, own):
            lease.release()


def _bells(database: Database) -> list[tuple[str, str]]:
    """Locks that are held, and their bells."""
    told = database.ask(
        "SELECT CONVERT(name USING utf8mb4), LEFT(holders, 12) FROM locknut_locks"
        " WHERE holders <> ''"
    )
    return [(str(name), f"locknut:{holder}") for name, holder in told]


def _bells_hung(database: Database) -> list[str]:
    return [name for _, name in _bells(database) if is_hung(database, name)]


def _has_bell(database: Database, lock: str) -> bool:
    return any(
        each.endswith(f":{lock}") and is_hung(database, name) for each, name in _bells(database)
    )


def test_a_broken_lock_is_taken_within_a_second_or_so(database: Database) -> None:
    """Nobody frees the bell of a hold that was broken: the first in line looks by itself."""
    one, two, three = (locknut.connect(database.url) for _ in range(3))
    lease = acquired(one.lock("x", ttl=300))
    waiting = in_thread(lambda: two.lock("x").acquire(timeout=PATIENCE))
    eventually(lambda: len(three.info("x").waiters) == 1, "it does not wait")
    assert three.force_release("x", fence=lease.fence) is not None
    (got,) = waiting()
    assert got is not None
    for each in (two, three, one):
        each.close()


def test_a_stranger_that_has_a_waiters_number_is_not_interrupted(database: Database) -> None:
    """The server was exchanged, and nobody told the connection that waits; the new one counts its
    own connections.
    """
    engine: Any = open_engine(database.url)[0]
    settings, login = engine._settings, {"user": database.user, "password": database.password}
    with (
        closing(BellSession(settings)) as tower,
        closing(BellSession(settings)) as waits,
        closing(stranger_of(database, **login)) as stranger,
        stranger.cursor() as cursor,
    ):
        waits.listen("1" * 32, "2" * 32)
        cursor.execute("SELECT CONNECTION_ID()")
        ((waits._number,),) = cursor.fetchall()
        ended = in_thread(lambda: cursor.execute("SELECT SLEEP(2)"))
        eventually(
            lambda: bool(
                database.ask(
                    f"SELECT 1 FROM information_schema.processlist WHERE id = {waits._number} "
                    "AND state = 'User sleep'"
                )
            ),
            "it does not work",
        )
        tower.interrupt(waits)
        assert ended() == [1]
        assert cursor.fetchall() == ((0,),)


def test_a_bell_that_its_thread_frees_this_moment_is_not_lent() -> None:
    """The release goes its usual way then; it raised KeyError."""
    settings: Any = None
    session: Any = SimpleNamespace(waits=False, alive=lambda: True)
    ringer = BellRinger(settings)
    ringer.sessions.append(session)
    ringer.where["x"] = session

    def alive() -> bool:
        ringer.where.pop("x")  # as `free` does, on the ringer's own thread
        return True

    session.alive = alive
    assert ringer.lend("x") is None
    assert ringer.sessions == [session]
    assert not ringer.lent


def test_without_a_thread_whoever_waits_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the interpreter exits there is none to be had: a lock that an exit handler took was
    granted, and then a RuntimeError.
    """

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    settings: Any = None
    chain = BellChain(settings)
    chain.join()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        chain.entered("a" * 32, alone=True)
        chain.expect("b" * 32, "a" * 32, lambda: None)
        chain.left("a" * 32)
    chain._ringer.wakes = False  # there is no server
    told = threading.Event()
    chain._post(told.set)
    assert told.wait(PATIENCE), "and later there is one"
    chain.part()
