"""Listing locks: all that there are, and no wait for a server that lists for somebody else."""

from __future__ import annotations

import itertools
import socket
import threading
from contextlib import closing

import pytest

from locknut.errors import BackendUnavailable
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.servers.memcached import MemcachedServer
from tests.servers.rewriting import Rewriting

pytestmark = pytest.mark.memcached
PATIENCE = 30.0
ROUNDS = 20
MANY = 20_000
"""Items to go through. The server rests after each thousand of them, as long as it is told to."""


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


def test_a_lock_that_others_look_at_is_in_the_list(
    memcached_server: MemcachedServer, paint: Colour
) -> None:
    """The server moves what is looked at often from one of its lists to another: whoever goes
    through these misses it in one of five cases.
    """
    name = f"wanted-{paint.name}"
    over = threading.Event()

    def use_others() -> None:
        with closing(memcached_server._connect()) as wire:
            for n in itertools.count():
                if over.is_set():
                    break
                key = b"other%d" % (n % 300)
                wire.sendall(b"ms %b 1 T60\r\nx\r\nmg %b v\r\n" % (key, key))
                wire.recv(4096)

    async def story() -> None:
        locks = paint.locks(open_engine(memcached_server.url)[0], Settings("listing"))
        for _ in range(ROUNDS):
            async with locks.lock(name, timeout=PATIENCE):
                for _ in range(4):
                    assert name in memcached_server.ask(f"mg listing:{name} v c t N300")
                assert [each.name for each in await locks.list()] == [name]
        await locks.close()

    busy = threading.Thread(target=use_others)
    busy.start()
    try:
        paint.run(story())
    finally:
        over.set()
        busy.join()


@pytest.mark.parametrize("known", ["by table", "by age"])
def test_older_servers_list_by_age(
    memcached_server: MemcachedServer, paint: Colour, known: str
) -> None:
    asked = b"metadump hash"
    instead = asked if known == "by table" else b"metadump none"

    async def story(port: int) -> None:
        url = memcached_server.url_through(port)
        locks = paint.locks(open_engine(url)[0], Settings(f"older-{paint.name}"))
        async with locks.lock("x", timeout=PATIENCE):
            assert [each.name for each in await locks.list()] == ["x"]
        await locks.close()

    with Rewriting((memcached_server.host, memcached_server.port), asked, instead) as proxy:
        paint.run(story(proxy.port))


def test_an_empty_server_has_an_empty_list(paint: Colour) -> None:
    async def story() -> None:
        with MemcachedServer() as server:
            locks = paint.locks(open_engine(server.url)[0], Settings("listing"))
            assert await locks.list() == []
            await locks.close()

    paint.run(story())


def test_a_server_that_lists_for_another_client_says_so_at_once(paint: Colour) -> None:
    """There is no end to wait for; on a loop, other callers would have waited behind it."""

    async def story(server: MemcachedServer) -> None:
        locks = paint.locks(open_engine(server.url)[0], Settings("listing"))
        assert await locks.list() == []
        for start in range(0, MANY, 1000):
            batch = [f"ms filler{n} 1 T0 q\r\nx" for n in range(start, start + 1000)]
            server.ask("\r\n".join([*batch, "mn"]), b"MN\r\n")
        server.ask("lru_crawler sleep 1000000", b"OK\r\n")  # microseconds
        with socket.create_connection((server.host, server.port)) as slow:
            slow.sendall(b"lru_crawler metadump all\r\n")
            assert slow.recv(4) == b"key="  # it has begun, and has twenty seconds to go
            with pytest.raises(BackendUnavailable, match="goes through its items already"):
                await locks.list()
        await locks.close()

    with MemcachedServer() as server:
        paint.run(story(server))
