"""What the documentation shows of SQLite works: in a folder of the test, not in the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.documentation import Block, blocks
from tests.contracts.test_documentation import run

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize("block", blocks("sqlite"), ids=str)
def test_every_example_runs(block: Block, tmp_path: Path) -> None:
    code = block.code.replace("sqlite:///tmp/", f"sqlite://{tmp_path}/")
    run(block._replace(code=code), tmp_path)
