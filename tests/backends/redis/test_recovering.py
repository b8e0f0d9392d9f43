"""A server that is gone: left alone for a moment, found when it is back, not sent to for ever."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from locknut.backends.redis.aio import asyncio_backend
from locknut.backends.redis.sync import blocking_backend
from locknut.drivers.redis import recovery, streams, wire
from locknut.drivers.redis.endpoints import MACHINE, FixedEndpoint
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.settings import read
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import run
from locknut.urls import parse
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
COLOURS = pytest.mark.parametrize("colour", ["blocking", "asyncio"])
CALLERS = 500


class Counting(FixedEndpoint):
    """A place that knows how often it was sought."""

    tried = 0

    async def reach(self, dial: Any) -> Any:
        self.tried += 1
        return await super().reach(dial)


@COLOURS
def test_many_callers_do_not_storm_a_server_that_is_gone(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "FIRST_PAUSE", 20.0)  # so that time plays no part
    monkeypatch.setattr(recovery, "LONGEST_PAUSE", 20.0)
    with RedisServer() as server:
        place = Counting(read(parse(server.url)))
        server.kill()

        async def story() -> None:
            port: Any = (
                blocking_backend(Pool(place)) if colour == "blocking" else asyncio_backend(place)
            )
            for _ in range(CALLERS):
                with pytest.raises(BackendUnavailable, match="no answer from"):
                    await port.inspect("t:x")
            await port.close()

        run(story()) if colour == "blocking" else asyncio.run(story())
        assert place.tried == 2


@COLOURS
def test_a_server_that_is_back_is_found(colour: str) -> None:
    with RedisServer() as server:
        place = Counting(read(parse(server.url)))

        async def asked(port: Any) -> bool:
            try:
                await port.inspect("t:x")
            except BackendUnavailable:
                return False
            return True

        async def story() -> None:
            port: Any = (
                blocking_backend(Pool(place)) if colour == "blocking" else asyncio_backend(place)
            )
            server.kill()
            assert not any([await asked(port) for _ in range(20)])
            server.start()
            while not await asked(port):
                pass
            await port.close()

        run(story()) if colour == "blocking" else asyncio.run(story())


def test_what_is_waited_after_each_failure() -> None:
    pauses = recovery.Recovery()
    for _ in range(20):
        pauses.failed(BackendUnavailable("gone"), MACHINE)
    with pytest.raises(BackendUnavailable, match="gone"):
        pauses.ensure_time(MACHINE)
    pauses.reached()
    pauses.ensure_time(MACHINE)


def test_a_server_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_UNSENT", 100_000)

    async def story(server: RedisServer) -> None:
        port: Any = asyncio_backend(FixedEndpoint(read(parse(f"{server.url}?socket_timeout=60"))))
        await port.inspect("t:x")
        stream: Any = port._server.link.stream
        server.stop()
        huge = wire.pack(b"ECHO", b"x" * 20_000_000)  # more than the kernel takes
        for answer in [stream.send(huge) for _ in range(2)]:
            with pytest.raises(BackendUnavailable, match="does not read"):
                await answer
        server.cont()
        assert await port.inspect("t:x") == []
        await port.close()

    with RedisServer() as server:
        asyncio.run(story(server))


def test_the_kernel_looks_after_idle_connections(server: RedisServer) -> None:
    def kept(sock: Any) -> bool:
        idle = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) and idle == 15

    async def story() -> None:
        port: Any = asyncio_backend(FixedEndpoint(read(parse(server.url))))
        await port.inspect("t:x")
        stream: Any = port._server.link.stream
        assert kept(stream._transport.get_extra_info("socket"))
        await port.close()

    asyncio.run(story())
    pool = Pool(FixedEndpoint(read(parse(server.url))))
    with pool.lent() as connection:
        assert kept(connection._socket)
    pool.close()
