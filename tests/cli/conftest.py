"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A place to start `locknut` in, with an engine of its own."""
    made = Shell(f"file://{tmp_path}/locks")
    try:
        yield made
    finally:
        made.close()
