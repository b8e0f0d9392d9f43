"""A loop looks names up on a thread: where none is to be had, that is an outage like others."""

from __future__ import annotations

import asyncio

import pytest

import locknut
import locknut.aio
from tests.no_threads import SAYS, no_threads
from tests.servers.redis import RedisServer
from tests.servers.resolver import in_its_place

pytestmark = pytest.mark.redis
NAME = "server.example"


def test_a_name_cannot_be_looked_up(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came out as a RuntimeError, which nobody waits for and nobody catches."""

    async def story() -> None:
        async with locknut.aio.connect(f"redis://{NAME}:{server.port}") as locks:
            with no_threads(), pytest.raises(locknut.BackendUnavailable, match=SAYS):
                await locks.lock("x").acquire(timeout=0)
            async with locks.lock("x", timeout=20):
                pass

    with in_its_place(monkeypatch, NAME) as resolver:
        resolver.answers.set()
        asyncio.run(story())
