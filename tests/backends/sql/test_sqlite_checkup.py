"""What `doctor` finds about a SQLite file and its directory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from locknut.runtimes import tmpfiles
from tests.checkups import FAIL, OK, WARN, examine, in_layers, mounted

pytestmark = pytest.mark.sqlite
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@pytest.fixture(autouse=True)
def no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cleans up this machine is not what is tested."""
    monkeypatch.setattr(tmpfiles, "FOLDERS", ())


@both_colours
def test_a_file_as_it_should_be(tmp_path: Path, colour: str) -> None:
    found = examine(f"sqlite://{tmp_path}/locks.db", colour)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 8


@both_colours
def test_a_directory_that_others_may_change(tmp_path: Path, colour: str) -> None:
    locks = tmp_path / "above" / "locks"
    locks.mkdir(parents=True)
    locks.parent.chmod(0o777)
    finding = examine(f"sqlite://{locks}/locks.db", colour)["sqlite-permissions"]
    assert finding.severity is FAIL


@both_colours
def test_a_directory_that_is_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    (tmp_path / "own.conf").write_text(f"d {tmp_path} - - - 1d\n")
    monkeypatch.setattr(tmpfiles, "FOLDERS", (str(tmp_path),))
    finding = examine(f"sqlite://{tmp_path}/locks.db", colour)["sqlite-cleaner"]
    assert finding.severity is WARN


PLACE = "sqlite://{}/locks.db"


def test_the_layers_of_a_container(tmp_path: Path) -> None:
    found = in_layers(tmp_path, PLACE)
    assert found["sqlite-system"]["severity"] == WARN
    assert "container" in found["sqlite-system"]["found"]


@pytest.mark.parametrize(
    ("fill", "severity"),
    [
        ("true", OK),
        ("head -c 3300k /dev/zero > {folder}/filler", WARN),
        ("head -c 4m /dev/zero > {folder}/filler || true", FAIL),
    ],
)
def test_what_room_there_is(tmp_path: Path, fill: str, severity: str) -> None:
    mount = f"mount -t tmpfs -o size=4m,mode=0700 none {tmp_path}\n{fill.format(folder=tmp_path)}"
    found = mounted(mount, tmp_path, PLACE)
    assert found["sqlite-space"]["severity"] == severity, found
    assert (found["usable"]["severity"] == OK) == (severity != FAIL), found


@both_colours
def test_a_log_that_cannot_begin_anew(tmp_path: Path, colour: str) -> None:
    path = tmp_path / "locks.db"
    examine(f"sqlite://{path}", colour)
    with closing(sqlite3.connect(path)) as reader, closing(sqlite3.connect(path)) as writer:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM locknut_locks").fetchall()
        writer.execute("CREATE TABLE filler (data BLOB)")
        for _ in range(66):
            writer.execute("INSERT INTO filler VALUES (zeroblob(1048576))")
            writer.commit()
        finding = examine(f"sqlite://{path}", colour)["sqlite-log"]
    assert finding.severity is WARN
