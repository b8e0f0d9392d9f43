"""One server that hangs does not cost the holds of the same process on others.

Two Locks of one process, on two servers, of which one is stopped. A command to that one may take
half a minute: if anything waited for it that looks after the other, its holds would be lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from locknut import State
from locknut.errors import BackendUnavailable
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.servers.etcd import EtcdServer
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.faults, pytest.mark.slow]
TTL = 5.0
PATIENT = "socket_timeout=30s"
PATIENCE = 60.0
HOLDS = 20


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


async def eventually(paint: Colour, check: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, what
        await paint.pause(0.02)


@pytest.mark.memcached
def test_a_memcached(paint: Colour, memcached_server: MemcachedServer) -> None:
    with MemcachedServer() as sick:
        sick.wait_until_old_enough()
        paint.run(story(paint, sick, f"{sick.url}?{PATIENT}", memcached_server.url))


@pytest.mark.etcd
def test_an_etcd(paint: Colour, etcd_server: EtcdServer) -> None:
    with EtcdServer() as sick:
        session = f"session_ttl={TTL / 3 * 4:g}"  # its holds are worth three quarters of that
        there = f"{sick.url}?{PATIENT}&{session}"
        paint.run(story(paint, sick, there, f"{etcd_server.url}?{session}"))


async def story(paint: Colour, sick: EtcdServer | MemcachedServer, there: str, here: str) -> None:
    sound = paint.locks(open_engine(here)[0], Settings(f"sound-{paint.name}"))
    stuck = paint.locks(open_engine(there)[0], Settings("sick"))
    lost = [await stuck.lock(f"x{n}", ttl=TTL).acquire(timeout=PATIENCE) for n in range(HOLDS)]
    lease = await sound.lock("x", ttl=TTL).acquire(timeout=PATIENCE)
    sick.stop()
    try:
        asking = paint.spawn(lambda: asked(stuck))
        await eventually(paint, lambda: lost[0].state is not State.HELD, "nobody renews there")
        for _ in range(2):
            ends = time.monotonic() + lease.remaining
            renewed = lambda: time.monotonic() + lease.remaining > ends + 0.1  # noqa: B023, E731
            await eventually(paint, renewed, "it is renewed here")
            assert lease.held
        async with sound.lock("y", timeout=PATIENCE):
            pass
        all_lost = lambda: all(each.state is State.LOST for each in lost)  # noqa: E731
        await eventually(paint, all_lost, "the sick one was sick all the time")
        assert lease.held
    finally:
        sick.cont()
    await lease.release()
    await asking.result(PATIENCE)
    await stuck.close()
    await sound.close()


async def asked(locks: Any) -> None:
    with suppress(BackendUnavailable):
        await locks.lock("more").acquire(timeout=PATIENCE)
