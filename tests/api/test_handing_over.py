"""Handing over inside a process: who may get the hold, how often, and under which fence."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import locknut
from locknut.testing import FakeLocks
from tests.api.crowd import PATIENCE, Started


class Bench:
    """Locks on a clock that stands still, so that the ten milliseconds of a cohort never end."""

    def __init__(self, fakes: FakeLocks) -> None:
        self.clock = fakes.clock

    def connect(self, **settings: Any) -> locknut.Locks:
        return locknut.connect("memory:", **settings)


@pytest.fixture
def bench(locknut_fakes: FakeLocks) -> Bench:
    return Bench(locknut_fakes)


class Line:
    """Threads that wait for "x" one behind the other, and what they got."""

    def __init__(self, locks: locknut.Locks):
        self.locks = locks
        self.waiting = threading.Semaphore(0)
        self.kinds: list[str] = []
        self.fences: list[int] = []
        self.crowd: list[Started] = []
        locks.on_event(self._hear)

    def _hear(self, event: locknut.Event) -> None:
        if event.kind == "waiting":
            self.waiting.release()
        if event.kind in {"granted", "handed_over"}:
            self.kinds.append(event.kind)

    def join(self, **options: Any) -> None:
        self.crowd.append(Started(self._work, options))
        assert self.waiting.acquire(timeout=PATIENCE)

    def _work(self, options: dict[str, Any]) -> None:
        with self.locks.lock("x", **options) as lease:
            self.fences.append(lease.fence)

    def served(self) -> list[str]:
        for each in self.crowd:
            each.result()
        assert self.fences == sorted(set(self.fences))
        return self.kinds


def test_n_waiters_cost_one_remote_grant(bench: Bench) -> None:
    locks = bench.connect()
    line = Line(locks)
    with locks.lock("x") as first:
        for _ in range(5):
            line.join()
    assert line.served() == ["granted", *["handed_over"] * 5]
    assert line.fences == [first.fence + n for n in range(1, 6)]


def test_the_former_lease_is_released_and_not_lost(bench: Bench) -> None:
    locks = bench.connect()
    line = Line(locks)
    told: list[Any] = []
    lease = locks.lock("x", ttl=30, on_lost=told.append).acquire()
    assert lease is not None
    line.join(ttl=30)
    lease.release()
    assert line.served() == ["granted", "handed_over"]
    assert lease.state is locknut.State.RELEASED
    bench.clock.advance(100)
    assert not told


@pytest.mark.parametrize("cohort", [0, 1, 3, 31])
def test_a_cohort_is_bounded(bench: Bench, cohort: int) -> None:
    locks = bench.connect(cohort=cohort)
    line = Line(locks)
    with locks.lock("x"):
        for _ in range(5):
            line.join()
    kinds = line.served()
    first, *rest = kinds
    assert first == "granted"
    longest = max((len(run) for run in "".join(k[0] for k in rest).split("g")), default=0)
    assert longest == min(cohort, 5)


def test_sixteen_in_a_row_unless_told_otherwise(bench: Bench) -> None:
    locks = bench.connect()
    line = Line(locks)
    with locks.lock("x"):
        for _ in range(17):
            line.join()
    assert line.served() == ["granted", *["handed_over"] * 16, "granted"]


def test_after_ten_milliseconds_it_goes_through_the_engine(bench: Bench) -> None:
    locks = bench.connect()
    line = Line(locks)
    with locks.lock("x"):
        line.join()
        bench.clock.advance(0.011)
    assert line.served() == ["granted", "granted"]


@pytest.mark.parametrize(
    ("holder", "waiter"),
    [
        ({"ttl": 30}, {"ttl": 20}),
        ({}, {"ttl": 20}),
        ({"ttl": 30}, {"ttl": 30, "auto_renew": False}),
        ({"ttl": 30}, {"ttl": 30, "max_hold": 100}),
        ({"fair": True}, {"fair": True}),
        ({}, {"owner": "me"}),
    ],
)
def test_only_between_equals(bench: Bench, holder: dict[str, Any], waiter: dict[str, Any]) -> None:
    locks = bench.connect()
    line = Line(locks)
    with locks.lock("x", **holder):
        line.join(**waiter)
    assert line.served() == ["granted", "granted"]


def test_not_with_less_than_half_the_ttl_left(bench: Bench) -> None:
    locks = bench.connect()
    line = Line(locks)
    options = {"ttl": 0.015, "auto_renew": False}
    with locks.lock("x", **options):  # type: ignore[arg-type]
        line.join(**options)
        bench.clock.advance(0.008)
    assert line.served() == ["granted", "granted"]


def test_an_attached_lease_is_not_handed_over(bench: Bench) -> None:
    locks = bench.connect()
    lease = locks.lock("x").acquire()
    assert lease is not None
    attached = locks.attach(lease.detach())
    line = Line(locks)
    line.join()
    attached.release()
    assert line.served() == ["granted"]


def test_max_hold_starts_anew(bench: Bench) -> None:
    locks = bench.connect()
    waiting, got = threading.Event(), threading.Event()
    locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
    taken: list[Any] = []

    def work() -> None:
        taken.append(locks.lock("x", ttl=30, max_hold=60).acquire())
        got.set()
        done.wait(PATIENCE)

    done = threading.Event()
    lease = locks.lock("x", ttl=30, max_hold=60).acquire()
    assert lease is not None
    worker = Started(work)
    assert waiting.wait(PATIENCE)
    bench.clock.advance(0.009)
    lease.release()
    assert got.wait(PATIENCE)
    assert taken[0].fence == lease.fence + 1
    bench.clock.advance(59.995)
    assert taken[0].held
    bench.clock.advance(0.1)
    assert not taken[0].held
    done.set()
    worker.result()


def test_a_break_compares_the_remote_grant_only(bench: Bench) -> None:
    """The engine knows the raw number alone, so `fence // 32` is compared (U3)."""
    locks, operator = bench.connect(), bench.connect()
    lease = locks.lock("x").acquire()
    assert lease is not None
    assert operator.force_release("x", fence=lease.fence + 5)
    bench.clock.settle()
    with pytest.raises(locknut.LeaseLost):
        lease.release()
    with locks.lock("x"), pytest.raises(locknut.StaleFence):
        operator.force_release("x", fence=lease.fence)
