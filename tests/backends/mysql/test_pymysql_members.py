"""A canary for PyMySQL's private members: a release that changes one fails here, by its name.

`pyproject.toml` keeps out releases that have not been tried. To let one in, raise the upper bound
there, run this file, and then all tests of the engine against real servers.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

import pymysql
import pytest

from tests.contracts.sources import ROOT

MEMBERS = {
    *("_execute_command", "_force_close", "_read_packet", "_read_query_result", "_read_timeout"),
    *("_result", "_rfile", "_sock", "_write_timeout"),
}


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_pymysql_has_it(name: str) -> None:
    connection = pymysql.connections.Connection(defer_connect=True)
    assert hasattr(connection, name)


def test_no_other_is_used() -> None:
    folders = [ROOT / "src/locknut" / each for each in ("drivers/mysql", "backends/sql/mysql")]
    sources = "".join(path.read_text() for each in folders for path in each.glob("*.py"))
    assert "driver._sock" in sources
    used = set(re.findall(r"driver\.(_[a-z_]+)", sources))
    assert used == MEMBERS


def test_releases_that_were_never_tried_are_kept_out() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = project["optional-dependencies"]["mysql"]
    most = re.search(r"<(\d+)\.(\d+)$", wanted)
    assert most is not None
    here = tuple(map(int, version("PyMySQL").split(".")[:2]))
    assert here < tuple(map(int, most.groups()))
