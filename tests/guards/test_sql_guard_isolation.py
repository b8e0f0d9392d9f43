"""Two transactions at once, at every isolation level: who waits, who is refused, and by whom.

What the database itself refuses (a row that is locked for too long, a deadlock, a snapshot that is
too old) is an error of the driver: the program's transaction starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from locknut.errors import BackendError, LocknutError, StaleFence
from locknut.guards.sql import SqlGuard
from tests.guards.sql_databases import LEVELS, Database, at, every_database, every_level
from tests.guards.sql_holders import NAME, Holder

PATIENCE = 60


class Stage:
    """Holders of one test, and what they do behind its back."""

    def __init__(self, database: Database, level: str | None) -> None:
        self.database = database
        self.ends = ExitStack()
        self._level = level
        self._others = self.ends.enter_context(ThreadPoolExecutor(4))

    def holders(self, count: int, *, hurried: bool = False) -> list[Holder]:
        make = self.database.hurried if hurried else self.database.holder
        return [self.ends.enter_context(make(level=self._level)) for _ in range(count)]

    def meanwhile(self, work: Callable[..., Any], *words: Any) -> Future[Any]:
        """It has to wait for a row; returns when it does."""
        begun = self._others.submit(work, *words)
        self.database.until_waiting()
        assert not begun.done()
        return begun


@pytest.fixture
def stage(database: Database, request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(database, request.node.callspec.params.get("level"))
    with made.ends:
        yield made


def is_too_late(stage: Stage, level: str) -> bool:
    """Whether a snapshot from before the wait makes the database refuse what it waited for."""
    return stage.database.name == "postgresql" and level != "READ COMMITTED"


@every_level
def test_a_newer_one_waits_for_an_open_older_one_and_sees_what_it_wrote(
    stage: Stage, level: str
) -> None:
    old, new = stage.holders(2)
    old.enter(7).write(old.read() - 10)
    waits = stage.meanwhile(new.enter, 8)
    old.commit()
    if is_too_late(stage, level):
        with pytest.raises(stage.database.errors, match="serialize"):
            waits.result(PATIENCE)
        new.rollback()
        new.enter(8)
    else:
        waits.result(PATIENCE)
    assert new.read() == 90
    new.commit()
    with pytest.raises(StaleFence):
        old.enter(7)


@every_level
def test_an_older_one_waits_for_an_open_newer_one_and_is_refused(stage: Stage, level: str) -> None:
    old, new = stage.holders(2)
    new.enter(8).write(1)
    waits = stage.meanwhile(old.enter, 7)
    new.commit()
    if is_too_late(stage, level):
        with pytest.raises(stage.database.errors, match="serialize"):
            waits.result(PATIENCE)
        old.rollback()
        waits = Future()
        with pytest.raises(StaleFence):
            old.enter(7)
    else:
        with pytest.raises(StaleFence):
            waits.result(PATIENCE)
    assert old.guard.fence is None


@every_level
def test_an_older_one_comes_in_when_the_newer_one_rolls_back(stage: Stage, level: str) -> None:
    old, new = stage.holders(2)
    new.enter(8).write(1)
    waits = stage.meanwhile(old.enter, 7)
    new.rollback()
    waits.result(PATIENCE)
    assert (old.read(), old.newest()) == (100, 7), level
    old.commit()
    new.enter(8)


@every_level
def test_a_name_that_is_new_to_both_is_decided_as_well(stage: Stage, level: str) -> None:
    old, new = stage.holders(2)
    assert new.newest() is None
    new.rollback()
    new.enter(8)
    waits = stage.meanwhile(old.enter, 7)
    new.commit()
    with pytest.raises((StaleFence, stage.database.errors)) as refused:
        waits.result(PATIENCE)
    assert isinstance(refused.value, StaleFence) is not is_too_late(stage, level)


@every_level
def test_other_names_do_not_wait(stage: Stage, level: str) -> None:
    """Neither for a row beside theirs, nor when both rows are new."""
    first, second = stage.holders(2, hurried=True)
    for name in ("b", "d"):
        SqlGuard(first.connection, name).enter(7)
    first.commit()
    SqlGuard(first.connection, "b").enter(7)
    SqlGuard(first.connection, "f").enter(7)
    for name in ("a", "c", "d", "e", "g"):
        assert SqlGuard(second.connection, name).enter(7).newest() == 7, (name, level)
    second.commit()
    first.commit()


@every_level
def test_a_row_that_stays_locked_is_an_error_of_the_driver(stage: Stage, level: str) -> None:
    """Never a refusal, and never an admission."""
    (holder,) = stage.holders(1)
    old, new = stage.holders(2, hurried=True)
    for fence in (7, 8):  # the row is new, and then it is not
        holder.enter(fence)
        for other, theirs in ((old, 1), (new, 9)):
            with pytest.raises(stage.database.errors) as problem:
                other.enter(theirs)
            assert not isinstance(problem.value, LocknutError), level
            assert other.guard.fence is None
            other.rollback()
        holder.commit()
    assert holder.newest() == 8


@every_level
def test_a_deadlock_is_an_error_of_the_driver(stage: Stage, level: str) -> None:
    one, two = stage.holders(2)
    for name in ("a", "b"):
        SqlGuard(one.connection, name).enter(1)
    one.commit()
    SqlGuard(one.connection, "a").enter(7)
    SqlGuard(two.connection, "b").enter(8)
    waits = stage.meanwhile(SqlGuard(one.connection, "b").enter, 7)
    outcomes: list[BaseException | None] = []
    try:
        SqlGuard(two.connection, "a").enter(8)
        outcomes.append(None)
    except stage.database.errors as problem:
        outcomes.append(problem)
        two.rollback()
    outcomes.append(waits.exception(PATIENCE))
    told = [each for each in outcomes if each is not None]
    assert len(told) == 1, level
    assert isinstance(told[0], stage.database.errors)
    assert "deadlock" in str(told[0]).lower()


@at(*LEVELS[1:])
@pytest.mark.parametrize("theirs", [6, 7], ids=["first entry", "same fence as before"])
def test_who_read_before_entering_is_told_that_somebody_was_at_work(
    stage: Stage, level: str, theirs: int
) -> None:
    """Or it would write by what it read, and the other's change would be lost."""
    old, new = stage.holders(2, hurried=True)
    old.enter(7)
    old.commit()
    old = old if theirs == 7 else stage.holders(1, hurried=True)[0]
    assert new.read() == 100
    locks_reads = level == "SERIALIZABLE" and stage.database.name != "postgresql"
    if locks_reads:  # so nobody was at work
        old.enter(7)
        with pytest.raises(stage.database.errors):
            old.write(50)
        old.rollback()
        new.enter(8).write(new.read() + 1)
        new.commit()
        return
    old.enter(7).write(50)
    old.commit()
    with pytest.raises((BackendError, stage.database.errors), match=r"begun to read|serialize"):
        new.enter(8)
    new.rollback()
    new.enter(8).write(new.read() + 1)
    new.commit()
    assert new.read() == 51


@at(*LEVELS[1:])
def test_who_read_before_entering_goes_on_if_nobody_was_at_work(stage: Stage, level: str) -> None:
    (holder,) = stage.holders(1)
    for fence in (7, 8):
        before = holder.read()
        holder.enter(fence).write(before + 1)
        holder.commit()
    assert holder.read() == 102, level


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite_has_one_writer_at_a_time(database: Database, journal: str) -> None:
    with database.hurried() as old, database.hurried() as new:
        assert old.ask(f"PRAGMA journal_mode = {journal}") == [(journal,)]
        old.enter(7).write(90)
        for fence in (6, 8):
            with pytest.raises(database.errors, match="locked"):
                new.enter(fence)
            new.rollback()
        old.commit()
        assert new.enter(8).read() == 90
        new.commit()
        with pytest.raises(StaleFence):
            old.enter(7)


def test_sqlite_tells_who_read_before_entering(database: Database) -> None:
    with database.hurried() as old, database.hurried() as new:
        assert old.ask("PRAGMA journal_mode = wal") == [("wal",)]
        new.ask("BEGIN")
        assert new.read() == 100
        old.enter(7).write(50)
        old.commit()
        with pytest.raises(database.errors, match="locked"):
            new.enter(8)
        new.rollback()
        assert new.enter(8).read() == 50


# What goes wrong without it.


@every_database
def test_a_check_without_the_row_loses_an_update(database: Database) -> None:
    """The naive one: look at the newest fence, then write."""
    with database.holder() as old, database.holder() as new:
        old.enter(7)
        old.commit()
        assert old.newest() == 7  # not refused
        new.enter(8).write(new.read() + 10)
        new.commit()
        old.write(99)
        old.commit()
        new.rollback()
        assert new.read() == 99, "what the newer one added is lost"


@every_database
def test_entering_does_not(database: Database) -> None:
    """The same steps: the newer one has to wait until the older one is through, or is refused."""
    with database.holder() as old, database.hurried() as new:
        old.enter(7)
        old.commit()
        old.enter(7)
        with pytest.raises(database.errors):
            new.enter(8)
        new.rollback()
        old.write(99)
        old.commit()
        new.enter(8).write(new.read() + 10)
        new.commit()
        assert new.read() == 109


@every_database
def test_a_check_on_write_alone_loses_an_update(database: Database) -> None:
    """The new holder enters after its first read: an old one writes in between (S16)."""
    with database.holder() as old, database.holder() as new:
        before = new.read()
        new.commit()
        old.enter(7).write(50)
        old.commit()
        new.enter(8).write(before + 10)
        new.commit()
        assert new.read() == 110, "what the older one wrote was accepted, and is lost"


@every_database
def test_entering_before_the_first_read_does_not(database: Database) -> None:
    with database.holder() as old, database.holder() as new:
        before = new.enter(8).read()
        new.commit()
        with pytest.raises(StaleFence):
            old.enter(7)
        old.rollback()
        new.enter(8).write(before + 10)
        new.commit()
        assert new.read() == 110


@every_database
def test_a_read_that_was_rolled_back_does_not_keep_older_ones_out(database: Database) -> None:
    """So a transaction that only read is committed, if its holder goes on with what it read."""
    with database.holder() as old, database.holder() as new:
        before = new.enter(8).read()
        new.rollback()
        old.enter(7).write(50)
        old.commit()
        new.enter(8).write(before + 10)
        new.commit()
        assert (new.read(), NAME) == (110, new.guard.name), "the older one's change is lost"
