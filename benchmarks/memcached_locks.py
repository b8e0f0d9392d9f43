"""The memcached locks that are compared: a bare socket, Locknut, and what others make of a cache.

The place of each is the URL of a server. The bare socket is the least that a safe lock has to send:
an `add` that returns the CAS id, and a delete of just that id, in a Python loop with hardly any
reading of the answers. Sherlock and tooz run with the settings they come with. The lock on
pymemcache is the recipe that is written by hand most often: `add` with an expiry, and a delete of
whatever is there.
"""

from __future__ import annotations

import secrets
import socket
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import locknut
import locknut.aio
from benchmarks.kinds import Kind, Opened, Pair

TTL = 30
VALUE = b"0" * 32


def ours(url: str) -> Opened:
    locks = locknut.connect(url)
    return lambda name: _pair(locks.lock(name))


def ours_asyncio(url: str) -> Opened:
    locks = locknut.aio.connect(url)
    return lambda name: _pair(locks.lock(name))


def bare(url: str) -> Opened:
    def opened(name: str) -> Pair:
        wire = socket.create_connection(_address(url))
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = f"bare:{name}".encode()
        take = b"ms %s %d T%d ME c\r\n%s\r\n" % (key, len(VALUE), TTL, VALUE)
        held: list[bytes] = []

        def acquire() -> None:
            wire.sendall(take)
            answer = wire.recv(4096)
            assert answer.startswith(b"HD c"), answer
            held.append(answer[4:-2])

        def release() -> None:
            wire.sendall(b"md %s C%s\r\n" % (key, held.pop()))
            answer = wire.recv(4096)
            assert answer == b"HD\r\n", answer

        return Pair(acquire, release)

    return opened


def pymemcache(url: str) -> Opened:
    client = import_module("pymemcache.client.base").Client(_address(url), no_delay=True)

    def opened(name: str) -> Pair:
        def acquire() -> None:
            assert client.add(name, secrets.token_hex(16), expire=TTL, noreply=False)

        def release() -> None:
            assert client.delete(name, noreply=False)

        return Pair(acquire, release)

    return opened


def sherlock(url: str) -> Opened:
    host, port = _address(url)
    client = import_module("pylibmc").Client([f"{host}:{port}"], binary=True)
    made = import_module("sherlock").MCLock
    return lambda name: _pair(made(name, client=client))


def tooz(url: str) -> Opened:
    made = import_module("tooz.coordination").get_coordinator(url, b"bench")
    made.start()
    return lambda name: _pair(made.get_lock(name.encode()))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


def _address(url: str) -> tuple[str, int]:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    return place.hostname, place.port


BARE = "bare socket"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
UVLOOP = "locknut.aio, uvloop"
PYMEMCACHE = "add and delete by pymemcache"
SHERLOCK = "sherlock"
TOOZ = "tooz"
KINDS = {
    BARE: Kind(bare),
    BLOCKING: Kind(ours),
    ASYNCIO: Kind(ours_asyncio, True),
    UVLOOP: Kind(ours_asyncio, True, uvloop=True),
    PYMEMCACHE: Kind(pymemcache, module="pymemcache"),
    SHERLOCK: Kind(sherlock, module="pylibmc", interval=0.1),
    TOOZ: Kind(tooz, module="tooz", interval=0.1),
}
