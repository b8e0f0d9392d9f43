"""The etcd locks that are compared: two bare transactions, Locknut, and what others make of etcd.

The place of each is the URL of a member. The bare transactions are the least that a lock has to
ask for, by our own driver: a put with a lease if the key is not there, and a delete by its create
revision. etcd3gw, tooz and etcd3 run with the settings they come with; tooz uses etcd3gw. etcd3 is
as old as its generated code, so it needs protobuf's own Python.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import locknut
import locknut.aio
from benchmarks.kinds import Kind, Opened, Pair
from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.requests import Delete, Put, created
from locknut.drivers.etcd.settings import Settings
from locknut.drivers.etcd.sync import BlockingLink
from locknut.runtimes.threads import run

TTL = 30
AN_HOUR = 3600
"""The lease of the bare keys: nobody renews it while a workload runs."""


def ours(url: str) -> Opened:
    locks = locknut.connect(url)
    return lambda name: _pair(locks.lock(name))


def ours_asyncio(url: str) -> Opened:
    locks = locknut.aio.connect(url)
    return lambda name: _pair(locks.lock(name))


def bare(url: str) -> Opened:
    settings = Settings((_address(url),))
    link = BlockingLink(settings, Members(settings))
    lease = run(link.grant(AN_HOUR)).id

    def opened(name: str) -> Pair:
        key = f"bare/{name}/{lease:x}".encode()
        held: list[int] = []

        def acquire() -> None:
            reply = run(link.transact([created(key, 0)], [Put(key, b"", lease)]))
            assert reply.succeeded
            held.append(reply.revision)

        def release() -> None:
            assert run(link.transact([created(key, held.pop())], [Delete(key)])).succeeded

        return Pair(acquire, release)

    return opened


def etcd3gw(url: str) -> Opened:
    host, port = _address(url)
    client = import_module("etcd3gw").client(host=host, port=port)
    return lambda name: _pair(client.lock(name, ttl=TTL))


def tooz(url: str) -> Opened:
    host, port = _address(url)
    made = import_module("tooz.coordination")
    coordinator = made.get_coordinator(f"etcd3+http://{host}:{port}", b"bench")
    coordinator.start()
    return lambda name: _pair(coordinator.get_lock(name.encode()))


def etcd3(url: str) -> Opened:
    os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
    host, port = _address(url)
    client = import_module("etcd3").client(host=host, port=port)
    return lambda name: _pair(client.lock(name, ttl=TTL))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


def _address(url: str) -> tuple[str, int]:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    return place.hostname, place.port


BARE = "bare transactions"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
ETCD3GW = "etcd3gw"
TOOZ = "tooz"
ETCD3 = "etcd3"
KINDS = {
    BARE: Kind(bare),
    BLOCKING: Kind(ours),
    ASYNCIO: Kind(ours_asyncio, True),
    ETCD3: Kind(etcd3, module="etcd3"),
    ETCD3GW: Kind(etcd3gw, module="etcd3gw", interval=0.01),
    TOOZ: Kind(tooz, module="etcd3gw", interval=1.0),
}
