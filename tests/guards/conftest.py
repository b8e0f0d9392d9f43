"""The database of a test, with a fresh table of guards in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guards.sql_databases import KINDS, Database


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """The one that the test names; SQLite, if it names none."""
    name = getattr(request, "param", "sqlite")
    place = tmp_path if name == "sqlite" else request.getfixturevalue(f"{name}_database")
    found = KINDS[name](place)
    found.lay_out()
    return found
