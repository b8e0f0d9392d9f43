"""What the documentation shows of ZooKeeper works: on a private server instead of the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.documentation import Block, blocks
from tests.contracts.test_documentation import run
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper


@pytest.mark.parametrize("block", blocks("zookeeper"), ids=str)
def test_every_example_runs(
    block: Block, tmp_path: Path, zookeeper_server: ZooKeeperServer
) -> None:
    code = block.code.replace("zookeeper://localhost", f"zookeeper://{zookeeper_server.address}")
    run(block._replace(code=code), tmp_path)
