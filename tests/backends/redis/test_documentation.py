"""What the documentation shows of Redis works: against a private server instead of the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.documentation import Block, blocks
from tests.contracts.test_documentation import run
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


@pytest.mark.parametrize("block", blocks("redis"), ids=str)
def test_every_example_runs(block: Block, tmp_path: Path, redis_server: RedisServer) -> None:
    code = block.code.replace("redis://localhost", redis_server.url.removesuffix("/0"))
    code = code.replace("redis.Redis()", f"redis.Redis(port={redis_server.port})")
    run(block._replace(code=code), tmp_path)
