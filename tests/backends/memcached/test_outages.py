"""A client that is cut off from its server for a while, and a crowd that waits, in both colours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import locknut
from locknut import State
from locknut.errors import BackendUnavailable, LeaseLost
from locknut.opening import Settings
from locknut.testing import FaultProxy
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.memcached, pytest.mark.faults]
PATIENCE = 40.0
QUICK = "socket_timeout=0.5"
"""An outage is noticed soon: the tests need not wait for the usual two seconds."""


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


@pytest.fixture
def proxy(memcached_server: MemcachedServer) -> Iterator[FaultProxy]:
    with FaultProxy((memcached_server.host, memcached_server.port)) as made:
        yield made


def through(paint: Colour, proxy: FaultProxy) -> Any:
    url = f"memcached://127.0.0.1:{proxy.port}?{QUICK}"
    return paint.locks(open_engine(url)[0], Settings("outages"))


def beside(server: MemcachedServer) -> locknut.Locks:
    """Somebody whose way to the server is never disturbed."""
    return locknut.connect(server.url, namespace="outages")


async def eventually(paint: Colour, check: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, what
        await paint.pause(0.01)


@pytest.mark.slow
def test_a_cut_shorter_than_the_ttl_puts_a_lease_at_risk_and_nothing_is_lost(
    paint: Colour, proxy: FaultProxy, memcached_server: MemcachedServer
) -> None:
    async def story() -> None:
        locks = through(paint, proxy)
        lease = await locks.lock("short", ttl=20, timeout=PATIENCE).acquire()
        proxy.refuse()
        proxy.cut()
        await eventually(paint, lambda: lease.state is State.AT_RISK, "at risk")
        with beside(memcached_server) as others:
            assert others.lock("short").acquire(blocking=False) is None
        proxy.heal()
        await eventually(paint, lambda: lease.state is State.HELD, "held again")
        await lease.release()
        await locks.close()

    paint.run(story())


@pytest.mark.slow
def test_a_cut_longer_than_the_ttl_is_a_loss_that_the_holder_knows_first(
    paint: Colour, proxy: FaultProxy, memcached_server: MemcachedServer
) -> None:
    async def story() -> None:
        locks = through(paint, proxy)
        lease = await locks.lock("long", ttl=3, timeout=PATIENCE).acquire()
        proxy.black_hole()
        with beside(memcached_server) as others:
            next_one = others.lock("long").acquire(blocking=False)
            while next_one is None:
                assert lease.held or lease.state is State.LOST
                await paint.pause(0.05)
                next_one = others.lock("long").acquire(blocking=False)
            assert lease.state is State.LOST, "before anybody else could have it"
            assert next_one.fence > lease.fence
            with pytest.raises(LeaseLost):
                await lease.release()
            proxy.heal()
            assert next_one.held
            next_one.renew()  # what the other one sent at last has changed nothing
            next_one.release()
        async with locks.lock("long", timeout=PATIENCE) as again:
            assert again.fence > next_one.fence
        await locks.close()

    paint.run(story())


@pytest.mark.slow
def test_what_could_not_be_given_back_is_given_back_after_the_outage(
    paint: Colour, proxy: FaultProxy, memcached_server: MemcachedServer
) -> None:
    """Its ttl is a day: nothing else would free it."""

    async def story() -> None:
        locks = through(paint, proxy)
        lease = await locks.lock("owed", ttl=86400, timeout=PATIENCE).acquire()
        proxy.refuse()
        proxy.cut()
        with pytest.raises(BackendUnavailable):
            await lease.release()
        with beside(memcached_server) as others:
            assert others.lock("owed").acquire(blocking=False) is None
            proxy.heal()
            await eventually(paint, lambda: not others.info("owed").locked, "it is free")
            with others.lock("owed", timeout=PATIENCE):
                pass
        await locks.close()

    paint.run(story())


def test_an_acquire_whose_answer_was_lost_leaves_nothing_after_the_outage(
    paint: Colour, proxy: FaultProxy, memcached_server: MemcachedServer
) -> None:
    """It was done and its caller never learned of it. Nobody has it, and its ttl is a day."""

    async def story() -> None:
        locks = through(paint, proxy)
        lock = locks.lock("unheard", ttl=86400)
        await lock.acquire(timeout=PATIENCE)
        await lock.release()
        proxy.replies.swallow()
        with pytest.raises(BackendUnavailable):
            await lock.acquire(timeout=0.7)
        with beside(memcached_server) as others:
            assert others.info("unheard").locked, "it was done, or this shows nothing"
            proxy.heal()
            proxy.cut()
            await eventually(paint, lambda: not others.info("unheard").locked, "it is free")
        await locks.close()

    paint.run(story())


@pytest.mark.parametrize("mishap", ["flush", "restart"])
@pytest.mark.slow
def test_a_holder_learns_that_the_server_forgot(paint: Colour, mishap: str) -> None:
    async def story() -> None:
        with MemcachedServer() as server:
            server.wait_until_old_enough()
            locks = paint.locks(open_engine(server.url)[0], Settings("outages"))
            lease = await locks.lock("x", ttl=4).acquire(timeout=PATIENCE)
            {"flush": server.flush, "restart": server.restart}[mishap]()
            assert await lease.lost.wait(PATIENCE)
            with pytest.raises(LeaseLost):
                await lease.release()
            async with locks.lock("x", timeout=PATIENCE) as again:
                assert again.fence > lease.fence
            await locks.close()

    paint.run(story())


@pytest.mark.slow
def test_a_crowd_of_one_process_asks_like_one_waiter(
    paint: Colour, memcached_server: MemcachedServer
) -> None:
    """One of them asks every 25 to 75 ms, the others wait in the process."""
    crowd = 1000 if paint.name == "asyncio" else 100
    turns, looks = 0, "cmd_get"

    async def story() -> None:
        nonlocal turns
        url = memcached_server.url
        locks = paint.locks(open_engine(url)[0], Settings("outages"))
        inside = 0

        async def wait() -> None:
            nonlocal inside, turns
            async with locks.lock("crowd", timeout=2 * PATIENCE):
                inside += 1
                assert inside == 1
                turns += 1
                inside -= 1

        with beside(memcached_server) as others:
            held = others.lock("crowd", timeout=PATIENCE).acquire()
            assert held is not None
            waiting = [paint.spawn(wait) for _ in range(crowd)]
            before, began = int(memcached_server.stats()[looks]), time.monotonic()
            await paint.pause(1.0)  # how often they ask is what is counted
            asked = int(memcached_server.stats()[looks]) - before
            took = time.monotonic() - began
            held.release()
        for each in waiting:
            await each.result(2 * PATIENCE)
        await locks.close()
        assert asked <= took / 0.025 + 5, f"{asked} looks in {took:.2f} s"

    paint.run(story())
    assert turns == crowd
