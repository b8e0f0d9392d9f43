"""`locknut schema`: the statements that make an engine's table, without asking the database."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import locknut
from tests.cli.harness import Shell


@pytest.mark.sqlite
def test_it_prints_what_makes_the_table(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    shell = Shell(f"sqlite://{path}?table=order")
    code, out, err = shell.run("schema")
    assert (code, err) == (0, "")
    assert not path.exists()
    with sqlite3.connect(path) as database:
        database.executescript(out)
    database.close()
    with locknut.connect(f"sqlite://{path}?table=order") as locks, locks.lock("x"):
        pass
    assert json.loads(shell.run("schema", "--json")[1]) == {"schema": out[:-1]}


def test_an_engine_without_a_table_says_so(shell: Shell) -> None:
    code, out, err = shell.run("schema")
    assert (code, out) == (78, "")
    assert "file: has no table" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["x"], ["--no-such"]])
def test_a_wrong_command_line_is_64(shell: Shell, words: list[str]) -> None:
    assert shell.run("schema", *words)[0] == 64
