"""The server's clock is set: numbers grow, the dead do not stay, and nobody is overtaken."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import locknut
from locknut.core.values import FENCE_STEP, Busy, Granted, Mode
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.redis.conftest import PATIENCE, claim, eventually
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
AHEAD = 2 * 86_400
HOUR = 3600


@pytest.fixture(scope="module")
def running() -> Iterator[RedisServer]:
    with RedisServer(flavour="valkey", clock=True) as server:
        yield server


@pytest.fixture
def clocked(running: RedisServer) -> Iterator[RedisServer]:
    set_clock(running, 0)
    running.flushall()
    yield running
    running.flushall()


def set_clock(server: RedisServer, ahead_by: float) -> None:
    server.set_clock(ahead_by)
    eventually(lambda: abs(ahead(server) - ahead_by) < 60, "its clock was not set")


def ahead(server: RedisServer) -> float:
    seconds, _ = map(int, server.ask("TIME"))  # type: ignore[arg-type]
    return seconds - time.time()


def left(server: RedisServer, key: str) -> int:
    found = server.ask("PTTL", key)
    assert isinstance(found, int)
    return found


def fences(url: str, times: int = 1) -> list[int]:
    found = []
    with locknut.connect(url) as locks:
        for _ in range(times):
            with locks.lock("job", timeout=5) as lease:
                found.append(lease.fence)
    return found


@pytest.mark.parametrize(
    ("layout", "key"), [("", "locknut:{job}:fence"), ("?layout=redis-py", "locknut_fence:{job}")]
)
def test_a_number_ahead_of_the_clock_stays_until_the_clock_has_passed_it(
    clocked: RedisServer, layout: str, key: str
) -> None:
    """S11: or the next one would be smaller, with no data lost."""
    set_clock(clocked, AHEAD)
    early = fences(clocked.url + layout)
    set_clock(clocked, 0)
    later = fences(clocked.url + layout, 2)
    assert sorted({*early, *later}) == early + later
    assert later[1] - later[0] == FENCE_STEP, "one by one"
    assert left(clocked, key) > AHEAD * 1000


KINDS = {
    "plain": claim(ttl=2.0),
    "owner": claim(ttl=2.0, owner="ann"),
    "read": claim(ttl=2.0, mode=Mode.SHARED),
    "permit": claim(ttl=2.0, mode=Mode.PERMIT),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_after_a_step_back_a_dead_holder_does_not_stay_for_its_length(
    clocked: RedisServer, kind: str
) -> None:
    """Its time was counted by the former clock; whoever waits cuts it down to its ttl."""
    port = open_engine(clocked.url)[0].blocking(ThreadRuntime())
    assert isinstance(run(port.attempt(KINDS[kind], 0.0)), Granted)
    set_clock(clocked, -HOUR)
    hold = "t:{x}:permits" if kind == "permit" else "t:{x}"
    assert left(clocked, hold) > 1_000_000
    with locknut.connect(clocked.url, namespace="t") as locks:
        lock = locks.semaphore("x", 1) if kind == "permit" else locks.lock("x")
        lease = lock.acquire(timeout=PATIENCE)
        assert lease is not None
        lease.release()
    run(port.close())


def test_after_a_step_forward_holds_end_early_and_numbers_grow(clocked: RedisServer) -> None:
    with (
        locknut.connect(clocked.url, namespace="t") as locks,
        locknut.connect(clocked.url, namespace="t") as others,
    ):
        former = locks.lock("x", ttl=600).acquire(timeout=5)
        assert former is not None
        set_clock(clocked, HOUR)
        with others.lock("x", timeout=5) as later:
            assert former.held, "it has not been told yet"
            assert later.fence > former.fence
            with pytest.raises(locknut.LeaseLost):
                former.renew()


def test_after_a_step_back_tombstones_stay(clocked: RedisServer) -> None:
    port, late = open_engine(clocked.url)[0].blocking(ThreadRuntime()), claim()
    run(port.release(late, outcome_unknown=True))
    set_clock(clocked, -HOUR)
    assert isinstance(run(port.attempt(late, 0.0)), Busy)
    assert left(clocked, "t:{x}:alive") > 1_000_000
    run(port.close())


@pytest.mark.slow
def test_what_was_detached_for_longer_than_its_ttl_is_not_cut_down(clocked: RedisServer) -> None:
    with locknut.connect(clocked.url, namespace="t") as locks:
        for lock in (locks.lock("x", ttl=2), locks.lock("x", ttl=2, owner="ann")):
            lease = lock.acquire(timeout=5)
            assert lease is not None
            text = lease.detach(ttl=60)
            assert locks.lock("x").acquire(timeout=2.5) is None
            assert left(clocked, "t:{x}") > 30_000
            locks.attach(text).release()


def test_after_a_step_back_nobody_is_overtaken(clocked: RedisServer) -> None:
    port = open_engine(clocked.url)[0].blocking(ThreadRuntime())
    holder, first, second = claim(), claim(), claim()
    assert isinstance(run(port.attempt(holder, 0.0)), Granted)
    assert isinstance(run(port.attempt(first, 0.0)), Busy)
    set_clock(clocked, -HOUR)
    assert isinstance(run(port.attempt(second, 0.0)), Busy)
    line = clocked.ask("ZRANGE", "t:{x}:line", 0, -1)
    assert line == [first.id.encode(), second.id.encode()]
    for each in (holder, first, second):
        run(port.release(each))
    run(port.close())


@pytest.mark.slow
def test_after_a_step_back_a_waiter_that_died_before_it_is_passed_over(
    clocked: RedisServer,
) -> None:
    port, other = (open_engine(clocked.url)[0].blocking(ThreadRuntime()) for _ in range(2))
    holder, dead = claim(), claim()
    assert isinstance(run(port.attempt(holder, 0.0)), Granted)
    assert isinstance(run(other.attempt(dead, 0.0)), Busy)
    set_clock(clocked, -HOUR)
    waiter = claim()
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    run(port.release(holder))  # goes to the dead one, for three seconds at most
    with port.watch(waiter, ThreadRuntime().signal) as inbox:
        give_up = now() + PATIENCE
        while not isinstance(run(port.attempt(waiter, 0.0)), Granted):
            assert now() < give_up
            run(inbox.wait(now() + 0.5))
    run(port.release(waiter))
    for each in (port, other):
        run(each.close())


def test_after_a_step_back_all_who_died_before_it_are_passed_over_together(
    clocked: RedisServer,
) -> None:
    """Or each of them would have the lock for three seconds, one after the other."""
    port, *others = (open_engine(clocked.url)[0].blocking(ThreadRuntime()) for _ in range(4))
    holder, late = claim(), claim()
    assert isinstance(run(port.attempt(holder, 0.0)), Granted)
    for other in others:
        assert isinstance(run(other.attempt(claim(), 0.0)), Busy)
    run(port.release(late, outcome_unknown=True))  # and a tombstone, which stays
    set_clock(clocked, -HOUR)
    run(port.release(holder))  # goes to the first of the dead
    told = clocked.ask("ZRANGE", "t:{x}:alive", 0, -1, "WITHSCORES")
    assert isinstance(told, list)
    ends = {name: float(end) for name, end in zip(told[::2], told[1::2], strict=True)}  # type: ignore[arg-type]
    heard = [end for name, end in ends.items() if not name.startswith(b"-")]  # type: ignore[union-attr]
    soon = (time.time() - HOUR + PATIENCE) * 1000
    assert len(heard) == 3
    assert max(heard) < soon, "one of them counts as alive for the length of the step"
    assert [end for end in ends.values() if end > soon] == [ends[b"-" + late.id.encode()]]
    for each in (port, *others):
        run(each.close())


def test_leases_and_waiters_go_on_through_steps_back(clocked: RedisServer) -> None:
    with locknut.connect(clocked.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=3).acquire(timeout=5)
        assert lease is not None
        got: list[bool] = []

        def wait() -> None:
            with (
                locknut.connect(clocked.url, namespace="t") as others,
                others.lock("x", ttl=3, timeout=PATIENCE) as later,
            ):
                got.append(later.held)

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: locks.info("x").waiters, "nobody waits")
        set_clock(clocked, -HOUR)
        time.sleep(1.5)  # a renewal, and a heartbeat
        assert lease.held
        lease.renew()
        lease.release()
        waiter.join()
        assert got == [True]
