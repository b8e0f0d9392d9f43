"""What a hand-over costs the server: its statements are counted, one hand-over at a time.

Each client is one of its own, as in a process of its own: it has its own connections and bells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

import locknut
from tests.backends.mysql.conftest import PATIENCE, acquired, eventually
from tests.backends.mysql.test_bells import hung
from tests.servers.databases import Database

WAITING = 8
MOST = 4
"""Statements that one hand-over may cost."""


class Log:
    """What clients have said to the server."""

    def __init__(self, database: Database):
        self._database = database

    def forget(self) -> None:
        self._database.ask("TRUNCATE TABLE mysql.general_log")

    def said(self) -> list[str]:
        """Without what this test asks itself, as the administrator."""
        rows = self._database.ask(
            "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log "
            "WHERE command_type = 'Query' AND user_host LIKE 'tester%' ORDER BY event_time"
        )
        return [str(text) for (text,) in rows]


@contextmanager
def logged(database: Database) -> Iterator[Log]:
    database.ask("SET GLOBAL log_output = 'TABLE'")
    database.ask("SET GLOBAL general_log = ON")
    try:
        yield Log(database)
    finally:
        database.ask("SET GLOBAL general_log = OFF")


class Client:
    """One that takes and gives back the lock when it is told, on a thread of its own."""

    def __init__(self, url: str, ask: Callable[[locknut.Locks], locknut.Lease | None]):
        self.locks = locknut.connect(url)
        self._ask = ask
        self._thread = ThreadPoolExecutor(1)
        self.lease: Future[locknut.Lease | None] = Future()

    def come(self) -> None:
        self.lease = self._thread.submit(self._ask, self.locks)

    def leave(self) -> None:
        lease = self.lease.result(PATIENCE)
        assert lease is not None
        self._thread.submit(lease.release).result(PATIENCE)

    def close(self) -> None:
        self._thread.shutdown()
        self.locks.close()


def lined_up(database: Database, clients: list[Client]) -> None:
    """The first one holds, and all the others sleep at the server."""
    clients[0].come()
    clients[0].lease.result(PATIENCE)
    for number, each in enumerate(clients[1:], 1):
        each.come()
        eventually(lambda number=number: len(hung(database)) == number, "it does not sleep")  # type: ignore[misc]


@pytest.mark.usefixtures("timeless")
def test_a_hand_over_costs_four_statements(database: Database) -> None:
    """The release with its ring, the next one's take, and join and sleep of the one that comes
    again.
    """

    def ask(locks: locknut.Locks) -> locknut.Lease | None:
        return locks.lock("x", ttl=600, timeout=PATIENCE, fair=True).acquire()

    with ExitStack() as ended, logged(database) as log:
        clients = [Client(database.url, ask) for _ in range(WAITING + 1)]
        for each in clients:
            ended.callback(each.close)
        lined_up(database, clients)
        told = []
        for turn in range(3 * WAITING):
            holder, following = (clients[(turn + each) % len(clients)] for each in (0, 1))
            log.forget()
            holder.leave()
            following.lease.result(PATIENCE)
            holder.come()
            eventually(lambda: len(hung(database)) == WAITING, "it does not sleep again")
            told.append(log.said())
        for turn in range(len(clients)):
            clients[(3 * WAITING + turn) % len(clients)].leave()
    steady = told[len(clients) :]
    """By then every holder has waited."""
    most = max(steady, key=len)
    assert len(most) <= MOST, [text[:100] for text in most]


@pytest.mark.parametrize("shape", ["writer", "permit"])
def test_behind_several_holders_nobody_polls(database: Database, shape: str) -> None:
    """One that waits for any of several holders sleeps, and is rung by the one that makes room."""

    def hold(locks: locknut.Locks) -> locknut.Lease | None:
        if shape == "writer":
            return locks.rwlock("x", ttl=600).read().acquire(timeout=PATIENCE)
        return locks.semaphore("x", 3, ttl=600).acquire(timeout=PATIENCE)

    def wait(locks: locknut.Locks) -> locknut.Lease | None:
        if shape == "writer":
            return locks.rwlock("x", ttl=600).write().acquire(timeout=PATIENCE)
        return hold(locks)

    with ExitStack() as ended, logged(database) as log:
        holders = [Client(database.url, hold) for _ in range(3)]
        waiter = Client(database.url, wait)
        for each in (*holders, waiter):
            ended.callback(each.close)
        for each in holders:
            each.come()
            each.lease.result(PATIENCE)
        waiter.come()
        eventually(lambda: bool(asleep(database)), "it does not sleep")
        log.forget()
        eventually(lambda: len(sleeps(log)) >= 2, "it does not go on sleeping")
        looks = [text for text in log.said() if text.startswith("INSERT")]
        assert len(looks) <= 3 * len(sleeps(log)), "one look and one beat a second, at most"
        leaving = holders if shape == "writer" else holders[1:2]
        for each in leaving:
            each.leave()
        waiter.lease.result(PATIENCE)
        eventually(lambda: any(text.startswith("KILL QUERY") for text in log.said()), "nobody rang")
        waiter.leave()
        for each in holders:
            if each not in leaving:
                each.leave()


def asleep(database: Database) -> list[object]:
    """Connections that wait for a ring."""
    return list(
        database.ask(
            "SELECT id FROM information_schema.processlist "
            "WHERE state = 'User sleep' AND info LIKE '%SLEEP(%' AND db IS NOT NULL"
        )
    )


def sleeps(log: Log) -> list[str]:
    return [text for text in log.said() if "SLEEP(" in text]


@pytest.mark.usefixtures("timeless")
def test_a_ring_that_comes_before_the_sleep_is_not_lost(database: Database) -> None:
    """Whoever makes room the moment that another one joins the line finds no bell, and rings once
    more. Nobody is kept waiting until the next look, which is a second away.
    """
    with locknut.connect(database.url) as one, locknut.connect(database.url) as two:
        for _ in range(30):
            lease = acquired(one.semaphore("x", 1, ttl=600))
            with ThreadPoolExecutor(1) as other:
                got = other.submit(two.semaphore("x", 1, ttl=600).acquire, timeout=PATIENCE)
                eventually(lambda: bool(one.info("x").waiters), "it does not wait")
                lease.release()
                second = got.result(PATIENCE)
                assert second is not None
                second.release()


def test_one_of_another_user_looks_by_itself(database: Database) -> None:
    """It cannot be rung: a user may interrupt its own connections alone."""
    with locknut.connect(database.url) as one:
        leases = [acquired(one.semaphore("x", 2, ttl=600)) for _ in range(2)]
        other = database.login("other", "SELECT, INSERT, UPDATE, DELETE ON locknut_locks")
        with locknut.connect(other.url) as two, ThreadPoolExecutor(1) as thread:
            got = thread.submit(two.semaphore("x", 2, ttl=600).acquire, timeout=PATIENCE)
            eventually(lambda: bool(asleep(database)), "it does not sleep")
            leases[1].release()
            third = got.result(PATIENCE)
            assert third is not None
            third.release()
        leases[0].release()
