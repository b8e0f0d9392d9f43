"""`connect` reads a URL and talks to nobody; the first use of the engine does."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

import locknut
from locknut import aio


@pytest.mark.parametrize("face", [locknut, aio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("scheme", ["redis", "zookeeper"])
def test_the_first_use_connects(face: Any, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        host, port = server.getsockname()
        locks = face.connect(f"{scheme}://{host}:{port}")
        locks.lock("x", ttl=5)
        with pytest.raises(BlockingIOError):
            server.accept()
        with pytest.raises(locknut.BackendUnavailable):
            ping(locks)
        server.settimeout(30)
        server.accept()[0].close()


def ping(locks: Any) -> None:
    async def story() -> None:
        async with locks:
            await locks.ping(timeout=0.5)

    if isinstance(locks, aio.Locks):
        asyncio.run(story())
    else:
        with locks:
            locks.ping(timeout=0.5)
