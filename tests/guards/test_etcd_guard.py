"""The guard for data in etcd: a write is done while the lock is held, and never after."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.errors import ConfigurationError, LeaseLost, NotHeld
from locknut.guards.etcd import HeldKey, held_key
from tests.servers.etcd import EtcdServer

pytestmark = pytest.mark.etcd


def write(server: EtcdServer, held: HeldKey, key: str, value: str) -> bool:
    """One transaction of somebody else's client: the JSON gateway is what etcd3gw speaks."""
    put = {"key": _encoded(key), "value": _encoded(value)}
    asked: dict[str, Any] = {"compare": [held.comparison()], "success": [{"request_put": put}]}
    return bool(server.ask("/v3/kv/txn", asked).get("succeeded"))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def read(server: EtcdServer, key: str) -> str:
    return server.etcdctl("get", key, "--print-value-only").strip()


def test_a_write_is_done_while_the_lock_is_held(etcd_server: EtcdServer) -> None:
    with locknut.connect(f"{etcd_server.url}/guarded") as locks:
        with locks.lock("a") as lease:
            held = held_key(lease)
            assert held.create_revision * 32 == lease.fence
            assert write(etcd_server, held, "data-a", "1")
            assert write(etcd_server, held, "data-a", "2")
        assert not write(etcd_server, held, "data-a", "late")
        with locks.lock("a"):
            assert not write(etcd_server, held, "data-a", "later")
    assert read(etcd_server, "data-a") == "2"


@pytest.mark.slow
def test_nor_is_it_by_a_holder_that_does_not_know_of_its_loss(etcd_server: EtcdServer) -> None:
    """What no lock can prevent: it believes to hold, and somebody else does."""
    url = f"{etcd_server.url}/guarded?session_ttl=60"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        lease = locks.lock("b").acquire()
        assert lease is not None
        held = held_key(lease)
        assert others.force_release("b")
        with others.lock("b", timeout=10) as next_one:
            assert lease.held, "nobody has told it yet"
            assert not write(etcd_server, held, "data-b", "old")
            assert write(etcd_server, held_key(next_one), "data-b", "new")
        assert lease.lost.wait(60)
        with pytest.raises(LeaseLost):
            held_key(lease)
    assert read(etcd_server, "data-b") == "new"


def test_a_lease_of_a_loop(etcd_server: EtcdServer) -> None:
    async def story() -> None:
        async with aio.connect(f"{etcd_server.url}/guarded") as locks, locks.lock("c") as lease:
            held = held_key(lease)
            assert await asyncio.to_thread(write, etcd_server, held, "data-c", "1")

    asyncio.run(story())


def test_what_it_is_not_for(etcd_server: EtcdServer) -> None:
    with (
        locknut.connect("memory:") as locks,
        locks.lock("x") as lease,
        pytest.raises(ConfigurationError, match="not a lease of a lock in etcd"),
    ):
        held_key(lease)
    with locknut.connect(f"{etcd_server.url}/guarded") as locks:
        with (
            locks.rwlock("x").read() as reader,
            pytest.raises(ConfigurationError, match="exclusive"),
        ):
            held_key(reader)
        with locks.lock("x") as lease:
            pass
        with pytest.raises(NotHeld):
            held_key(lease)
