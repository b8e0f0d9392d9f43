"""A kit of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.kits import KINDS, Kit
from tests.servers.redis import RedisServer


@pytest.fixture(params=KINDS)
def kit(redis_server: RedisServer, request: pytest.FixtureRequest) -> Iterator[Kit]:
    """Every kind: what is asserted with it holds for redis-py's own Lock and for ours."""
    made = Kit(request.param, redis_server)
    yield made
    made.close()


@pytest.fixture(params=[kind for kind in KINDS if kind.startswith("locknut")])
def our_kit(redis_server: RedisServer, request: pytest.FixtureRequest) -> Iterator[Kit]:
    """Ours alone: what redis-py does not have."""
    made = Kit(request.param, redis_server)
    yield made
    made.close()
