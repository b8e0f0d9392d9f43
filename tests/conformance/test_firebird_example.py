"""A further SQL database keeps the contract, and costs what docs/extending.md says."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from locknut.core.values import Capability
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance import Conformance
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.urls import parse
from tests.contracts.sources import ROOT
from tests.servers.firebird import FirebirdServer

EXAMPLE = ROOT / "examples" / "firebird_engine"


@pytest.fixture(scope="module", autouse=True)
def _installed() -> Any:
    """As if the example's package were installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        yield


@pytest.mark.firebird
class TestFirebirdExample(Conformance):
    quick = (MutualExclusion,)

    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, firebird_server: FirebirdServer) -> str:
        return firebird_server.new_url()

    def open_engine(self, url: str) -> Any:
        return import_module("locknut_firebird").open_engine(parse(url))


def test_it_lacks_three_capabilities_of_the_sql_engines() -> None:
    engine = import_module("locknut_firebird").open_engine(parse("firebird://me@localhost/locks"))
    lacking = {Capability.SESSION, Capability.WAKE_UP, Capability.HISTORY, Capability.REPLICATED}
    assert engine.blocking(ThreadRuntime()).capabilities == frozenset(Capability) - lacking


PAGE = (ROOT / "docs" / "extending.md").read_text()
SQL = ROOT / "src" / "locknut" / "backends" / "sql"
DRIVERS = ROOT / "src" / "locknut" / "drivers"
FURTHER = {
    "wake_up": (
        [
            SQL / "postgresql/doorbells.py",
            DRIVERS / "postgresql/listener.py",
            SQL / "postgresql/backend.py",
        ],
        [*SQL.glob("mysql/bell_*.py"), SQL / "mysql/backend.py"],
    ),
    "mode=session": (
        [SQL / "postgresql/advisory_locks.py"],
        [*SQL.glob("mysql/named_lock*.py"), DRIVERS / "mysql/kept_sessions.py"],
    ),
    "history": ([SQL / "postgresql/history.sql"], [SQL / "mysql/history.sql"]),
    "doctor": ([SQL / "postgresql/checkup.py"], [SQL / "mysql/checkup.py"]),
}
"""Which files are for what, on PostgreSQL and on MySQL."""


def lines(*files: Path) -> int:
    return sum(len(each.read_text().splitlines()) for each in files)


def test_it_takes_as_many_lines_as_the_page_says() -> None:
    told = dict(re.findall(r"^\| `([\w.]+)` \| (\d+) \|", PAGE, re.MULTILINE))
    files = [each for each in (EXAMPLE / "locknut_firebird").iterdir() if each.is_file()]
    assert {each.name: str(lines(each)) for each in files} == told


@pytest.mark.parametrize("what", FURTHER)
def test_what_it_lacks_takes_about_as_many_as_the_page_says(what: str) -> None:
    found = re.search(
        rf"^\| .*`(?:locknut )?{what}`.* \| (\d+) lines \| (\d+) lines \|", PAGE, re.MULTILINE
    )
    assert found is not None
    for told, files in zip(found.groups(), FURTHER[what], strict=True):
        assert int(told) == pytest.approx(lines(*files), rel=0.1)
