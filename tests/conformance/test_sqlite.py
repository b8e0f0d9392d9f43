"""The SQLite engine keeps the contract, in both colours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import locknut
from locknut import Capability
from locknut.backends.sql.sqlite import database_file
from locknut.backends.sql.sqlite.file_clock import FileClock
from locknut.backends.sql.sqlite.settings import Settings
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance import Conformance
from locknut.urls import open_engine


@pytest.mark.sqlite
class TestSqlite(Conformance):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/locks.db"


@pytest.mark.sqlite
def test_what_it_declares(tmp_path: Path) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(f"sqlite://{tmp_path}/locks.db") as locks:
        missing = {Capability.SESSION, Capability.REPLICATED}
        assert set(Capability) - locks.capabilities == missing
    backend = open_engine(f"sqlite://{tmp_path}/locks.db")[0].blocking(ThreadRuntime())
    assert (backend.default_ttl, backend.min_ttl, backend.max_ttl) == (30, 0.1, 30 * 86400)


@pytest.mark.sqlite
def test_commits_are_durable(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path / "locks.db"))
    made = database_file.connect(settings, FileClock(now), time.monotonic() + 60)
    assert made.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert made.execute("PRAGMA synchronous").fetchone() == (2,)
    made.close()
