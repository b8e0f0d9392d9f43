"""Many holders with old and new fences at once, in every order that chance finds, and the history.

A hold is work in two transactions, as a program has it that computes something in between: enter
and read, then enter and write. Some roll back, some die in the middle, and most are overtaken: the
lock is granted to somebody newer while they are at it. Whatever happens, each write that was
accepted continues the one before it, and nobody comes in behind somebody newer.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locknut.errors import BackendError, StaleFence
from tests.guards.sql_databases import Database, at, on
from tests.guards.sql_holders import Holder

WORKERS = 5
LONGEST = 20.0
"""Seconds for the crowd of one database and level, if they do not come to"""
ENOUGH = 25
"""writes before."""


class Entry(NamedTuple):
    """An accepted `enter`, and when its transaction was committed, if it was."""

    fence: int
    asked: float
    committed: float | None


class History:
    """What the holders of a test have done."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.writes: list[tuple[int, int]] = []
        """Of each write that was committed: the amount it was computed from, and its own."""
        self.refused = self.failed = 0
        self._fences = itertools.count(1)

    def grant(self) -> int:
        return next(self._fences)

    def check(self, first: int, last: int) -> None:
        """No write is lost, and nobody came in behind somebody newer."""
        chain = sorted(self.writes)
        assert [before for before, _ in chain] == [first, *(own for _, own in chain)][:-1]
        assert last == (chain[-1][1] if chain else first)
        for entry in self.entries:
            newer = [
                each.fence
                for each in self.entries
                if each.committed is not None
                and each.committed < entry.asked
                and each.fence > entry.fence
            ]
            assert not newer, f"{entry} came in behind {newer}"


@contextmanager
def entered(history: History, holder: Holder, fence: int, *, commits: bool) -> Iterator[None]:
    """A transaction that enters, and is told in the history."""
    asked = time.monotonic()
    holder.enter(fence)
    committed = None
    try:
        yield
        if commits:
            holder.commit()
            committed = time.monotonic()
        else:
            holder.rollback()
    finally:
        # A commit whose answer did not come may have happened; nobody is blamed by it.
        history.entries.append(Entry(fence, asked, committed))


class Worker(threading.Thread):
    """Gets the lock again and again, and is slower than its lease as often as not."""

    def __init__(self, database: Database, level: str | None, history: History, seed: int) -> None:
        super().__init__(daemon=True)
        self._database, self._level, self._history = database, level, history
        self._chance = random.Random(seed)
        self.until = time.monotonic() + LONGEST
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self.until and len(self._history.writes) < ENOUGH:
                with self._database.holder(level=self._level) as holder:
                    self._hold(holder)
        except BaseException as problem:  # noqa: BLE001 -- the test raises it
            self.problem = problem

    def _hold(self, holder: Holder) -> None:
        """A few holds on one connection, until it dies in the middle of one."""
        for _ in range(10):
            fence = self._history.grant()
            self._pause()  # and somebody else is granted the lock
            try:
                if self._work(holder, fence):
                    return
            except StaleFence:
                self._history.refused += 1
            except self._database.errors:  # locked for too long, a deadlock, an old snapshot
                self._history.failed += 1
            holder.rollback()

    def _work(self, holder: Holder, fence: int) -> bool:
        """Whether its connection is to die, with the transaction open."""
        with entered(self._history, holder, fence, commits=True):
            before = holder.read()
            self._pause()
        self._pause()
        ending = self._chance.choice(["commit"] * 6 + ["rollback", "death"])
        with entered(self._history, holder, fence, commits=ending == "commit"):
            holder.write(before + 1)
            self._pause()
            if ending == "death":
                return True
        if ending == "commit":
            self._history.writes.append((before, before + 1))
        return False

    def _pause(self) -> None:
        time.sleep(self._chance.choice([0, 0, 0.001, 0.004]))


def crowd(database: Database, level: str | None) -> None:
    history = History()
    workers = [Worker(database, level, history, seed) for seed in range(WORKERS)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(60)
        assert not each.is_alive()
        if each.problem:
            raise each.problem
    with database.holder() as holder:
        history.check(100, holder.read())
    assert history.writes, "nobody got through"
    assert history.refused or history.failed, "nobody was too late, so nothing was tested"


@at("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
@pytest.mark.slow
def test_a_crowd_of_old_and_new_holders(database: Database, level: str) -> None:
    crowd(database, level)


@on("sqlite")
def test_a_crowd_of_old_and_new_holders_of_a_file(database: Database) -> None:
    crowd(database, None)


steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(
            ["hold", "enter", "enter", "read", "write", "commit", "commit", "rollback"]
        ),
    ),
    min_size=5,
    max_size=40,
)


class Actor:
    """One of those who are stepped through a history by Hypothesis; it never waits."""

    def __init__(self, holder: Holder, database: Database, history: History) -> None:
        self.holder, self._database, self._history = holder, database, history
        self._hold()

    def _hold(self) -> None:
        self.fence = self._history.grant()
        self._over()
        self._known: int | None = None
        """What it has read, in a transaction that was committed or is still open."""
        self._kept: int | None = None
        """What of that stays after a rollback."""

    def _over(self) -> None:
        self._asked: float | None = None
        self._written: tuple[int, int] | None = None

    def step(self, action: str) -> None:
        try:
            getattr(self, action)()
        except (StaleFence, BackendError):
            self._history.refused += 1
            self.rollback()
        except self._database.errors:
            self._history.failed += 1
            self.rollback()

    def hold(self) -> None:
        self.rollback()
        self._hold()

    def enter(self) -> None:
        if self._asked is None:
            asked = time.monotonic()
            self.holder.enter(self.fence)
            self._asked = asked

    def read(self) -> None:
        if self._asked is not None:
            self._known = self.holder.read()

    def write(self) -> None:
        if self._asked is not None and self._known is not None:
            before, self._known = self._known, self._known + 1
            first = self._written[0] if self._written else before
            self.holder.write(self._known)
            self._written = (first, self._known)

    def commit(self) -> None:
        if self._asked is None:
            return
        self.holder.commit()
        self._history.entries.append(Entry(self.fence, self._asked, time.monotonic()))
        self._kept = self._known
        if self._written:
            self._history.writes.append(self._written)
        self._over()

    def rollback(self) -> None:
        self.holder.rollback()
        if self._asked is not None:
            self._history.entries.append(Entry(self.fence, self._asked, None))
        self._known = self._kept
        self._over()


@on("sqlite", "postgresql", "mariadb")
def test_every_order_of_steps(database: Database) -> None:
    """Three holders, stepped one at a time: enter, read, write, commit, roll back, hold anew.

    Not on MySQL, where whoever meets a locked row waits for a second at least.
    """
    with ExitStack() as ends:
        holders = [ends.enter_context(database.hurried()) for _ in range(3)]

        @settings(max_examples=50, deadline=None, database=None)
        @given(steps)
        def play(plan: list[tuple[int, str]]) -> None:
            holders[0].ask("DELETE FROM locknut_guards")
            holders[0].write(100)
            holders[0].commit()
            history = History()
            actors = [Actor(holder, database, history) for holder in holders]
            for number, action in plan:
                actors[number].step(action)
            for each in actors:
                each.rollback()
            history.check(100, holders[0].read())
            holders[0].rollback()

        play()


def test_the_check_of_a_history_can_fail() -> None:
    history = History()
    history.writes = [(100, 101), (100, 101)]
    with pytest.raises(AssertionError):
        history.check(100, 101)
    history.writes = [(100, 101), (101, 102)]
    history.check(100, 102)
    with pytest.raises(AssertionError):
        history.check(100, 101)
    history.entries = [Entry(8, 1.0, 2.0), Entry(7, 1.5, 3.0), Entry(9, 4.0, None)]
    history.check(100, 102)
    history.entries.append(Entry(7, 2.5, None))
    with pytest.raises(AssertionError, match="behind"):
        history.check(100, 102)
