"""The few steps of an uncontended pair look at all that the others look at."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from locknut import aio
from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.sqlite import aio as connections
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.core.values import Busy, Granted
from locknut.errors import BackendError
from locknut.runtimes import cpython
from locknut.runtimes.threads import run
from tests.backends.sql.sqlite.place import backend, claim, take, url

pytestmark = [pytest.mark.sqlite]


def _file(made: SqlBackend) -> SqliteFile:
    connection: Any = made._table
    file: SqliteFile = connection._connection._file
    return file


def _in_the_middle(
    file: SqliteFile, monkeypatch: pytest.MonkeyPatch, do: Callable[[], Any]
) -> None:
    """Do this once, while the next command is under way: right before its statement."""
    read = file._clock.read

    def reading() -> int:
        monkeypatch.setattr(file._clock, "read", read)
        do()
        return read()

    monkeypatch.setattr(file._clock, "read", reading)


def test_a_pair_is_two_statements_that_commit_by_themselves(tmp_path: Path) -> None:
    made = backend(tmp_path)
    first = claim()
    take(made, first)
    run(made.release(first))
    connection, said = _file(made)._connection, []
    assert connection is not None
    connection.set_trace_callback(lambda text: said.append(text.split()[0]))
    held = claim()
    take(made, held)
    assert run(made.release(held))
    assert said == ["UPDATE", "UPDATE"]
    run(made.close())


def test_a_file_that_was_replaced_is_seen_by_the_next_command(tmp_path: Path) -> None:
    made, other, held = backend(tmp_path), backend(tmp_path), claim()
    take(made, held)
    for each in tmp_path.glob("locks.db*"):
        each.unlink()
    take(other, claim())
    assert isinstance(run(made.attempt(claim(waits=False), 0.0)), Busy)
    for each in tmp_path.glob("locks.db*"):
        each.rename(tmp_path / f"old-{each.name}")
    assert not run(made.release(held))
    run(made.close())
    run(other.close())


@pytest.mark.parametrize("verb", ["attempt", "release"])
def test_after_an_interrupt_another_connection_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Nobody knows in which state it was left."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    made, held = backend(tmp_path), claim()
    take(made, held)
    _in_the_middle(_file(made), monkeypatch, interrupt)
    work: Any = made.attempt(claim("t:y"), 0.0) if verb == "attempt" else made.release(held)
    with pytest.raises(KeyboardInterrupt):
        run(work)
    assert _file(made)._connection is None
    assert not made.inside()
    assert run(made.release(held))
    run(made.close())


def test_a_file_that_is_let_go_in_the_middle_of_a_command_is_closed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = backend(tmp_path)
    take(made, claim())
    _in_the_middle(_file(made), monkeypatch, made.dropped)
    take(made, claim("t:y"))
    assert _file(made)._connection is None


def test_another_error_is_told_and_the_connection_is_given_up(tmp_path: Path) -> None:
    made = backend(tmp_path)
    take(made, claim())
    with sqlite3.connect(tmp_path / "locks.db") as stranger:
        stranger.execute("ALTER TABLE locknut_locks RENAME COLUMN stamp TO other")
    stranger.close()
    with pytest.raises(BackendError, match="stamp"):
        run(made.attempt(claim("t:y"), 0.0))
    assert _file(made)._connection is None


@pytest.mark.skipif(not cpython.IS_KNOWN, reason="there it takes another turn of the loop")
def test_a_task_goes_on_in_the_step_that_hears_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another turn of the loop would cost it a system call for each command."""
    order: list[str] = []
    tell = connections._tell

    def telling(*answer: Any) -> None:
        order.append("told")
        tell(*answer)
        order.append("after")

    monkeypatch.setattr(connections, "_tell", telling)

    async def story() -> None:
        async with aio.connect(url(tmp_path)) as locks:
            backend: Any = locks._client.backend
            assert isinstance(await backend.attempt(claim(), 0.0), Granted)
            order.append("went on")
            await asyncio.sleep(0)
            assert order[:3] == ["told", "went on", "after"]

    asyncio.run(story())
