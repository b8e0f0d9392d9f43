"""What the tests of the memcached engine share: bare ports, claims, and a way to end asyncio's."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from locknut.backends.memcached.backend import MemcachedBackend
from locknut.core.values import Claim
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.servers.memcached import MemcachedServer


def claim(name: str = "x", ttl: float = 30.0) -> Claim:
    return Claim(f"t:{name}", secrets.token_hex(16), ttl)


def port(url: str) -> MemcachedBackend:
    """A client of its own, blocking."""
    found = open_engine(url)[0].blocking(ThreadRuntime())
    assert isinstance(found, MemcachedBackend)
    return found


@pytest.fixture
def own_server() -> Iterator[MemcachedServer]:
    """One that the test may kill, stop and flush."""
    with MemcachedServer() as server:
        server.wait_until_old_enough()
        yield server
        server.cont()


__all__ = ["claim", "port", "run"]
