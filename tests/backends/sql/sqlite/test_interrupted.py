"""Ctrl-C at any moment around a lock in a file leaves no ghost there, and nobody inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api import interrupting, stepped, storm
from tests.backends.sql.sqlite.place import url

pytestmark = [pytest.mark.sqlite, pytest.mark.faults]


@pytest.mark.parametrize("kind", stepped.KINDS)
@pytest.mark.slow
def test_at_each_moment(tmp_path: Path, kind: str) -> None:
    interrupting.stepping(url(tmp_path), kind, 7)


@pytest.mark.parametrize("kind", storm.KINDS)
@pytest.mark.slow
def test_in_a_storm(tmp_path: Path, kind: str) -> None:
    interrupting.storm(
        url(tmp_path), kind, 0.02
    )  # a commit waits for the disk: some rounds must pass
