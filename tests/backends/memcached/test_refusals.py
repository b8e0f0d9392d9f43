"""Servers and URLs that would not be safe are refused, in words that say what to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

import locknut
from locknut.drivers.memcached.settings import read
from locknut.errors import BackendError, ConfigurationError
from locknut.urls import parse
from tests.servers.memcached import MemcachedServer

pytestmark = pytest.mark.memcached


def test_a_server_without_cas_ids() -> None:
    refused = pytest.raises(ConfigurationError, match="without CAS ids")
    with MemcachedServer("-C") as server, locknut.connect(server.url) as locks, refused:
        locks.lock("x").acquire()


@pytest.mark.slow
def test_a_wrong_password_and_the_right_one() -> None:
    with MemcachedServer(login="ann:s3cret") as server:
        server.wait_until_old_enough()
        with locknut.connect(server.url) as locks, locks.lock("x", timeout=30) as lease:
            assert lease.held
        for login in ("ann:wrong@", ""):
            url = server.url.replace("ann:s3cret@", login)
            refused = pytest.raises(ConfigurationError, match="another user or password")
            with locknut.connect(url) as locks, refused as raised:
                locks.lock("x").acquire()
            assert "wrong" not in str(raised.value)


@pytest.mark.slow
def test_a_unix_socket() -> None:
    with MemcachedServer(unix=True) as server:
        server.wait_until_old_enough()
        with locknut.connect(server.url) as locks, locks.lock("x", timeout=30) as lease:
            assert lease.held


@pytest.mark.slow
def test_a_server_that_is_full_and_does_not_evict() -> None:
    with MemcachedServer("-M", "-m", "2") as server:
        server.wait_until_old_enough()
        filler = "x" * 90
        for round_ in range(200):
            batch = [f"ms filler{round_}-{n} 90 T0 q\r\n{filler}" for n in range(1000)]
            server.ask("\r\n".join([*batch, "mn"]), b"MN\r\n")
        with locknut.connect(server.url) as locks:

            def take_many() -> None:
                for n in range(10_000):
                    locks.lock(f"x{n}", timeout=5).acquire()

            with pytest.raises(BackendError, match="give it more memory"):
                take_many()


@pytest.fixture
def old_one() -> Iterator[int]:
    """Something that says it is memcached 1.5: none can be had any more."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            wire, _ = listening.accept()
            with wire:
                wire.recv(1000)
                wire.sendall(b"VERSION 1.5.22\r\nSTAT pid 1\r\nEND\r\nSTAT maxbytes 1\r\nEND\r\n")
                wire.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_a_server_that_is_too_old(old_one: int) -> None:
    refused = pytest.raises(ConfigurationError, match=r"is 1\.5\.22.*1\.6\.6 or newer")
    with locknut.connect(f"memcached://127.0.0.1:{old_one}") as locks, refused:
        locks.lock("x").acquire()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("memcached://a,b", "one host"),
        ("memcached://localhost/x", "no path"),
        ("memcached://localhost:99999", "a number below 65536"),
        ("memcached://localhost?ttl=3", "ttl"),
        ("memcached://localhost?socket_timeout=0", "socket_timeout must be between"),
        ("memcached://localhost?socket_timeout=inf", "socket_timeout must be between"),
        ("memcached://localhost?socket_connect_timeout=0", "socket_connect_timeout must be"),
        ("memcached://localhost?restart_delay=31d", "at most 30 days"),
        ("memcached+unix://host/x", "the socket's path"),
    ],
)
def test_urls(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        locknut.connect(url)


def test_time_limits() -> None:
    plain = read(parse("memcached://localhost"))
    assert (plain.limit, plain.connect_limit, plain.restart_delay) == (2.0, 2.0, 2.0)
    quick = read(parse("memcached://localhost?socket_timeout=500ms"))
    assert (quick.limit, quick.connect_limit) == (0.5, 0.5)
    both = read(parse("memcached://localhost?socket_timeout=1s&socket_connect_timeout=3s"))
    assert (both.limit, both.connect_limit) == (1.0, 3.0)


@pytest.mark.parametrize("ttl", [1, 2.9, 31 * 86400])
def test_ttls_that_it_cannot_keep(ttl: float, memcached_server: MemcachedServer) -> None:
    with locknut.connect(memcached_server.url) as locks, pytest.raises(ConfigurationError):
        locks.lock("x", ttl=ttl)


@pytest.mark.parametrize("ttl", [3, 30 * 86400])
def test_the_shortest_and_the_longest_ttl(ttl: float, memcached_server: MemcachedServer) -> None:
    """More than 30 days would be a date, if it were not the moment of the end that is sent."""
    memcached_server.wait_until_old_enough()
    with locknut.connect(memcached_server.url) as locks:
        with locks.lock(f"ttl-{ttl}", ttl=ttl) as lease:
            lease.renew()
            (holder,) = locks.info(lease.name).holders
            assert ttl - 1 <= (holder.ttl_left or 0) <= ttl + 2
        assert not locks.info(lease.name).locked
