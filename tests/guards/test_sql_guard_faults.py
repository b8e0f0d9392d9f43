"""A holder is stopped, another goes on, and then it wakes up: before, and in, a transaction."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.guards.sql_databases import Database, every_database, on
from tests.guards.sql_holders import NAME

SLEEPER = Path(__file__).with_name("sql_sleeper.py")
SOURCES = Path(__file__).parents[2] / "src"
GOES_BY_ITSELF = {
    "postgresql": "SET idle_in_transaction_session_timeout = '1s'",
    "mariadb": "SET SESSION idle_transaction_timeout = 1",
    "mysql": "SET SESSION wait_timeout = 1",
}
"""What makes the database end a transaction in which nothing happens."""

pytestmark = pytest.mark.faults


@contextmanager
def asleep(database: Database, *instead: str) -> Iterator[subprocess.Popen[str]]:
    """Somebody who has read 100 with fence 7, and then fell asleep."""
    with subprocess.Popen(
        [sys.executable, str(SLEEPER), database.url(awaits=False), NAME, "7", *instead],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    ) as sleeper:
        try:
            assert sleeper.stdout is not None
            assert sleeper.stdout.readline().split() == ["read", "100"]
            os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)  # or it would be woken before it sleeps
            yield sleeper
        finally:
            sleeper.kill()


def told(sleeper: subprocess.Popen[str]) -> str:
    """What becomes of it when it is woken."""
    sleeper.send_signal(signal.SIGCONT)
    assert sleeper.stdout is not None
    return sleeper.stdout.readline().split()[0]


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@every_database
def test_a_stopped_holder_that_writes_late(database: Database, guarded: bool) -> None:
    """Refused; and without the next one's guard it is not, so it is the guard that does it."""
    with asleep(database) as sleeper, database.holder() as new:
        if guarded:
            new.enter(8)
        new.write(new.read() + 10)
        new.commit()
        assert told(sleeper) == ("refused" if guarded else "written")
        assert new.read() == (110 if guarded else 101)


@on("postgresql", "mariadb", "mysql")
def test_a_holder_that_is_stopped_in_its_transaction_keeps_the_row_until_the_database_ends_it(
    database: Database,
) -> None:
    with asleep(database, GOES_BY_ITSELF[database.name]) as sleeper, database.holder() as new:
        amount = new.enter(8).read()  # waits for that
        new.write(amount + 10)
        new.commit()
        assert told(sleeper) == "failed"
        assert new.read() == 110
