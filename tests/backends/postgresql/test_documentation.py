"""What the documentation shows of PostgreSQL works: on a private server, not the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.documentation import Block, blocks
from tests.contracts.test_documentation import run
from tests.servers.databases import Database

pytestmark = pytest.mark.postgresql


@pytest.mark.parametrize("block", blocks("postgresql"), ids=str)
def test_every_example_runs(block: Block, tmp_path: Path, postgresql_database: Database) -> None:
    code = block.code.replace("postgresql://app@localhost/shop", postgresql_database.url)
    run(block._replace(code=code), tmp_path)
