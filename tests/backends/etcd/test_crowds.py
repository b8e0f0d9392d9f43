"""A crowd of one process costs the cluster one heartbeat, however many wait."""

from __future__ import annotations

import asyncio
import time

import pytest

import locknut
from locknut import aio
from locknut.testing.proxy import FaultProxy
from tests.backends.etcd.conftest import PATIENCE, eventually, line
from tests.servers.etcd import EtcdServer

pytestmark = [pytest.mark.etcd, pytest.mark.faults, pytest.mark.slow]
NAMES, EACH = 20, 50
"""A thousand, in twenty lines: with `fair=True` every one of them stands in the cluster's."""
SESSION = 4
HEARTBEAT, QUESTION = b"/etcdserverpb.Lease/LeaseKeepAlive", b"/etcdserverpb.KV/Txn"


def test_a_thousand_in_line_keep_one_lease_alive(etcd_server: EtcdServer, path: str) -> None:
    """Each has a key and a watch of its own: all belong to one lease and share one connection."""
    turns = 0

    async def wait(locks: aio.Locks, name: str) -> None:
        nonlocal turns
        async with locks.lock(name, fair=True, timeout=3 * PATIENCE):
            turns += 1

    async def story(proxy: FaultProxy, held: list[locknut.Lease]) -> None:
        options = f"session_ttl={SESSION}&socket_timeout=30s"
        url = f"etcd://127.0.0.1:{proxy.port}/{path}?{options}"
        async with aio.connect(url) as locks, asyncio.TaskGroup() as crowd:
            for each in held:
                for _ in range(EACH):
                    crowd.create_task(wait(locks, each.name))
            stand = lambda: all(len(line(etcd_server, path, each.name)) > EACH for each in held)  # noqa: E731
            await asyncio.to_thread(eventually, stand, "all stand in line")
            proxy.requests.forget()
            began = time.monotonic()
            await asyncio.to_thread(proxy.requests.wait_for, HEARTBEAT, count=3)
            took = time.monotonic() - began
            beats, asked = proxy.requests.seen(HEARTBEAT), proxy.requests.seen(QUESTION)
            for each in held:
                await asyncio.to_thread(each.release)
        assert beats <= took / (SESSION / 4) + 2, f"{beats} in {took:.1f} s"
        assert asked <= 5 * beats, f"{asked}: nor does each of them ask anything else"
        assert proxy.accepted <= 4

    with (
        FaultProxy((etcd_server.host, etcd_server.port)) as proxy,
        locknut.connect(f"{etcd_server.url}/{path}?session_ttl=60") as others,
    ):
        held = [others.lock(f"x{at}").acquire() for at in range(NAMES)]
        asyncio.run(story(proxy, [each for each in held if each is not None]))
    assert turns == NAMES * EACH
