"""A name may have several addresses: together they take no longer than the caller has."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from locknut.runtimes import sockets

Named = Callable[..., None]


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes no more connections, and does not refuse them either."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(server.getsockname())
        yield server


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Named:
    """What a name is looked up to."""

    def tell(*servers: socket.socket) -> None:
        found: list[Any] = [
            (each.family, socket.SOCK_STREAM, 6, "", each.getsockname()) for each in servers
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    return tell


def test_all_addresses_share_one_time_limit(silent: socket.socket, named: Named) -> None:
    """Each of them had all of it."""
    named(*[silent] * 8)
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        sockets.connected(("node.example", 1), 0.5)
    assert time.monotonic() - begun < 3.5


def test_one_that_is_silent_leaves_time_to_the_next(silent: socket.socket, named: Named) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        named(silent, server)
        with sockets.connected(("node.example", 1), 2.0) as made:
            assert made.getpeername() == server.getsockname()
            left = made.gettimeout()
    assert left is not None
    assert left < 1.1, "a TLS handshake gets what is left, and not all of it again"
