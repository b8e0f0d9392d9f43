"""The SQLite engine keeps the contract, in both colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from locknut.testing.conformance import Conformance


@pytest.mark.sqlite
class TestSqlite(Conformance):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/locks.db"
