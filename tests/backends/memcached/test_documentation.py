"""What the documentation shows of memcached works: on a private server, not the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.documentation import Block, blocks
from tests.contracts.test_documentation import run
from tests.servers.memcached import MemcachedServer

pytestmark = pytest.mark.memcached


@pytest.mark.parametrize("block", blocks("memcached"), ids=str)
def test_every_example_runs(
    block: Block, tmp_path: Path, memcached_server: MemcachedServer
) -> None:
    code = block.code.replace("memcached://localhost:11211", memcached_server.url)
    run(block._replace(code=code), tmp_path)
