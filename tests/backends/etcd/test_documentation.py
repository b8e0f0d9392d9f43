"""What the documentation shows of etcd works: on a private server instead of the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.documentation import Block, blocks
from tests.contracts.test_documentation import run
from tests.servers.etcd import EtcdServer

pytestmark = pytest.mark.etcd


@pytest.mark.parametrize("block", blocks("etcd"), ids=str)
def test_every_example_runs(block: Block, tmp_path: Path, etcd_server: EtcdServer) -> None:
    code = block.code.replace("etcd://localhost:2379", f"etcd://{etcd_server.address}")
    run(block._replace(code=code), tmp_path)
