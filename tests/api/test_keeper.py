"""The keeper: one thread for all leases, nothing left behind, never held up by users' callbacks."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.memory import MemoryEngine
from locknut.core.ports import Runtime
from locknut.core.values import Claim, Notice
from locknut.runtimes import threads
from tests.api.crowd import PATIENCE, TTL, renewed


class CountingEngine(MemoryEngine):
    """Counts renewals, over all its backends."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.renewed: list[int] = []
        self.first = threading.Event()

    def blocking(self, runtime: Runtime) -> Any:
        backend = super().blocking(runtime)
        plain = backend.renew

        async def renew(claims: list[Claim]) -> Sequence[Notice]:
            self.renewed.append(len(claims))
            self.first.set()
            return await plain(claims)

        backend.renew = renew  # type: ignore[method-assign,assignment]
        return backend

    asyncio = blocking


def ours() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("locknut")]


def test_ten_thousand_held_leases_are_one_thread() -> None:
    engine = CountingEngine()
    before = set(threading.enumerate())
    with locknut.Locks(engine) as locks:
        leases = [locks.lock(f"x{n}", ttl=10).acquire() for n in range(10_000)]
        assert engine.first.wait(PATIENCE)
        extra = set(threading.enumerate()) - before
        assert [each.name for each in extra] == ["locknut-keeper"]
        assert max(engine.renewed) <= 500
        assert all(lease is not None and lease.held for lease in leases)
    assert all(lease is not None and not lease.held for lease in leases)


def test_no_lease_no_thread(locks: locknut.Locks) -> None:
    before = set(threading.enumerate())
    for _ in range(100):
        with locks.lock("x"):
            pass
    assert not set(threading.enumerate()) - before


def test_taken_and_released_ten_thousand_times_costs_no_renewal() -> None:
    engine = CountingEngine()
    with locknut.Locks(engine) as locks:
        lock = locks.lock("x", ttl=60)
        for _ in range(10_000):
            with lock:
                pass
        timetable = locks._client.schedule.timetable
        assert not timetable._fifos
        assert not timetable._heap
        assert not locks._client.holds
        assert not locks._client.lines
    assert engine.renewed == []


def test_closing_ends_the_keeper(url: str) -> None:
    locks = locknut.connect(url)
    before = ours()
    lease = locks.lock("x", ttl=30).acquire()
    keepers = [each for each in ours() if each not in before]
    assert len(keepers) == 1
    locks.close()
    keepers[0].join(PATIENCE)
    assert not keepers[0].is_alive()
    assert lease is not None
    assert not lease.held


def test_a_callback_that_blocks_does_not_stop_renewals(locks: locknut.Locks) -> None:
    called, go_on = threading.Event(), threading.Event()

    def block(lease: locknut.Lease) -> None:
        called.set()
        go_on.wait(PATIENCE)

    kept = locks.lock("kept", ttl=TTL).acquire()
    locks.lock("lost", ttl=0.1, auto_renew=False, on_lost=block).acquire()
    assert called.wait(PATIENCE)
    assert kept is not None
    renewed(kept)
    assert kept.held
    go_on.set()
    kept.release()


def test_a_callback_that_raises_stops_neither_the_others_nor_renewals(
    locks: locknut.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_type))
    second = threading.Event()
    lease = locks.lock("x", ttl=0.1, auto_renew=False).acquire()
    kept = locks.lock("kept", ttl=TTL).acquire()
    assert lease is not None
    assert kept is not None

    def explode(lost: locknut.Lease) -> None:
        raise ZeroDivisionError(lost.name)

    lease.on_lost(explode)
    lease.on_lost(lambda lost: second.set())
    assert second.wait(PATIENCE)
    assert raised == [ZeroDivisionError]
    renewed(kept)


def test_a_callback_that_exits_stops_neither_the_others_nor_renewals(
    locks: locknut.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sys.exit()` ends the thread that it is called on."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # as Python's own does with it
    told = threading.Event()
    lease = locks.lock("x", ttl=0.1, auto_renew=False).acquire()
    kept = locks.lock("kept", ttl=TTL).acquire()
    assert lease is not None
    assert kept is not None
    lease.on_lost(lambda _: sys.exit(1))
    lease.on_lost(lambda _: told.set())
    assert told.wait(PATIENCE)
    renewed(kept)
    later = locks.lock("y", ttl=0.1, auto_renew=False).acquire()
    assert later is not None
    told.clear()
    later.on_lost(lambda _: told.set())
    assert told.wait(PATIENCE)


def test_a_callback_may_use_the_locks(locks: locknut.Locks) -> None:
    got: list[Any] = []
    done = threading.Event()

    def take_again(lost: locknut.Lease) -> None:
        got.append(locks.lock("x").acquire(timeout=PATIENCE))
        done.set()

    locks.lock("x", ttl=0.1, auto_renew=False, on_lost=take_again).acquire()
    assert done.wait(PATIENCE)
    assert got[0] is not None


def test_on_a_loop_the_keeper_is_a_thread_too(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            before = set(threading.enumerate())
            leases = [await locks.lock(f"x{n}", ttl=30).acquire() for n in range(100)]
            extra = [each.name for each in set(threading.enumerate()) - before]
            # Of the process: a lease that an earlier test dropped may need it just now.
            assert [name for name in extra if name != "locknut-callbacks"] == ["locknut-keeper"]
            assert len(asyncio.all_tasks()) == 1
            assert all(leases)

    asyncio.run(main())


def test_an_idle_keeper_is_not_needed_and_comes_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.core.keeper.IDLE", 0.02)
    with locknut.connect(url) as locks:
        for _ in range(3):
            before = set(ours())
            with locks.lock("x", ttl=3) as lease:
                assert not lease.lost.wait(1.1)  # renewed at 1
                (keeper,) = set(ours()) - before
            keeper.join(PATIENCE)
            assert not keeper.is_alive()


def test_a_keeper_that_was_closed_before_it_ran_ends_quietly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C may come when the thread is there and does not run yet."""
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    async def work() -> None:
        """Never begun."""

    closed = work()
    closed.close()
    threads.start(closed).join()
    assert told == []
