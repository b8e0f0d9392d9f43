"""An observer of a real place: what it sees, how often it looks, and what it survives."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

import locknut
from locknut import LockInfo, StaleFence
from locknut.observer import summaries
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.refresh_rate import SOON
from locknut.observer.seams import Member, Seams
from locknut.observer.sightings import Concern, Ending, Weight
from tests.observer.people import Waiters, held
from tests.servers.processes import until
from tests.servers.redis import RedisServer

DEADLINE = 30.0


@pytest.fixture
def locks(request: pytest.FixtureRequest) -> Iterator[locknut.Locks]:
    with locknut.connect(f"memory:{request.node.name}") as made:
        yield made


@pytest.fixture
def watch() -> Iterator[Callable[..., PlaceObserver]]:
    with ExitStack() as stack:

        def observe(
            locks: locknut.Locks, refresh: float = 0.02, seams: Seams | None = None
        ) -> PlaceObserver:
            observer = PlaceObserver(locks, refresh=refresh, seams=seams)
            stack.callback(observer.close)
            return observer

        yield observe


Watch = Callable[..., PlaceObserver]


def test_holds_waits_and_their_ends_are_seen(locks: locknut.Locks, watch: Watch) -> None:
    observer = watch(locks)
    with Waiters() as waiters, locks.lock("x") as lease:
        waiters.queue_up(locks, "x")
        observer.look()
        assert (observer.picture.held, observer.picture.waiting) == (1, 1)
        assert summaries.longest_wait(observer) is not None
        (owner,) = summaries.owners(observer)
        assert (len(owner.holds), len(owner.waits)) == (1, 1)
        assert [each.name for each in summaries.hottest(observer)] == ["x"]
        assert owner.holds[0].holder.fence == lease.fence
    observer.look()
    assert (observer.picture.held, observer.picture.waiting) == (0, 0)
    (over,) = observer.history.of("x").holds
    assert over.ending is Ending.RELEASED
    assert "released" in [each.kind for each in observer.happenings]


def test_nobody_is_said_to_wait_while_the_engine_is_silent(
    locks: locknut.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 0.0
    observer = PlaceObserver(locks, now=lambda: time.time() + late)
    with Waiters() as waiters, locks.lock("x"), closing(observer), monkeypatch.context() as patch:
        waiters.queue_up(locks, "x")
        observer.look()
        waited = summaries.longest_wait(observer)
        assert waited is not None

        def silent(_: str | None = None) -> list[LockInfo]:
            raise locknut.BackendUnavailable("no answer")

        patch.setattr(locks, "list", silent)
        late = 600.0
        observer.look()
        assert summaries.longest_wait(observer) == waited
        (hot,) = summaries.hottest(observer)
        assert hot.waited == pytest.approx(waited)
        assert [each.kind for each in observer.concerns()] == ["unreachable"]


def test_any_number_of_viewers_costs_the_engine_the_same(
    locks: locknut.Locks, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    real = locks.list

    def listed(pattern: str | None = None) -> list[LockInfo]:
        asked.append(time.monotonic())
        return real(pattern)

    monkeypatch.setattr(locks, "list", listed)
    observer = watch(locks, refresh=0.2)
    rung = [threading.Event() for _ in range(50)]
    observer.start()
    for each in rung:
        observer.view(each.set)
    until(lambda: len(asked) >= 4, "four listings")
    assert all(each.wait(DEADLINE) for each in rung)
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert min(gaps) >= 0.15


def test_a_viewer_that_left_is_not_rung(locks: locknut.Locks, watch: Watch) -> None:
    observer = watch(locks)
    here, gone = threading.Event(), threading.Event()
    observer.view(gone.set)()
    observer.view(here.set)
    observer.start()
    assert here.wait(DEADLINE)
    assert not gone.is_set()


def test_a_break_is_by_the_fence_that_was_seen(locks: locknut.Locks, watch: Watch) -> None:
    observer = watch(locks)
    first = held(locks, "x")
    observer.look()
    first.release()
    second = held(locks, "x")
    with pytest.raises(StaleFence):
        observer.break_hold("x", first.fence, "too long")
    assert second.held
    assert observer.break_hold("x", second.fence, "too long")
    observer.look()
    (concern,) = observer.concerns()
    assert (concern.kind, concern.name) == ("broken", "x")
    (event,) = [each for each in observer.happenings if each.kind == "broken"]
    assert event.detail == "too long"


def test_closing_ends_the_thread_and_leaves_the_locks_open(
    locks: locknut.Locks, watch: Watch
) -> None:
    observer = watch(locks)
    observer.start()
    observer.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("locknut-observer")]
    assert locks.lock("x").acquire(blocking=False)


def test_what_others_find_is_asked_for_and_shown(locks: locknut.Locks, watch: Watch) -> None:
    cycle = (Member("web-1:1", "b", 1), Member("web-2:2", "a", 2))
    advice = Concern(Weight.WARNING, "doctor", "the server evicts keys")
    seams = Seams(cycles=lambda _: [cycle], checkup=lambda _: [advice])
    observer = watch(locks, seams=seams)
    with Waiters() as waiters, locks.lock("a"), locks.lock("b"):
        waiters.queue_up(locks, "a")
        waiters.queue_up(locks, "b")
        observer.doctor.wanted = True
        observer.start()
        until(lambda: observer.doctor.findings, "the doctor was asked")
        until(lambda: observer.cycles == [cycle], "the circle was seen twice")
        (concern,) = [each for each in observer.concerns() if each.kind == "deadlock"]
        assert concern.title == "is in a deadlock of 2: b -> a -> b"


def test_a_deadlock_is_named(locks: locknut.Locks, watch: Watch) -> None:
    observer = watch(locks)
    both = threading.Barrier(2)

    def transfer(first: str, second: str) -> None:
        with (
            suppress(locknut.LeaseLost),
            locknut.connect(locks.place, label=first) as bank,
            bank.lock(first),
        ):
            both.wait(DEADLINE)
            bank.lock(second).acquire(timeout=DEADLINE)

    pairs = (("a", "b"), ("b", "a"))
    threads = [threading.Thread(target=transfer, args=each) for each in pairs]
    for each in threads:
        each.start()

    def found() -> bool:
        observer.look()
        return "deadlock" in [each.kind for each in observer.concerns()]

    until(found, "the deadlock is on the first page")
    assert sorted(each.lock for each in observer.cycles[0]) == ["a", "b"]
    locks.force_release("a")
    for each in threads:
        each.join(DEADLINE)


def test_a_circle_that_dissolves_while_one_looks_is_no_deadlock(
    locks: locknut.Locks, watch: Watch
) -> None:
    """The same parties in the same circle, but each time by other holds."""
    fences = iter(range(100))
    seams = Seams(cycles=lambda _: [(Member("a:1", "b", next(fences)), Member("b:2", "a", 1))])
    observer = watch(locks, seams=seams)
    with Waiters() as waiters, locks.lock("a"), locks.lock("b"):
        waiters.queue_up(locks, "a")
        waiters.queue_up(locks, "b")
        for _ in range(3):
            observer.look()
            assert not observer.cycles
            assert not observer.concerns()


ONE, OTHER, THIRD = (locknut.Holder("web", 1, party=f"p.{at}", raw=at) for at in (1, 2, 3))
A = LockInfo("a", (ONE,), (OTHER,))


@pytest.mark.parametrize(
    ("listed", "circular"),
    [
        ([A, LockInfo("b", (OTHER,), (ONE,))], True),
        ([A, LockInfo("b", (OTHER,), (THIRD,))], False),
        ([LockInfo("a", (ONE,), (ONE,))], True),
        ([A], False),
        ([LockInfo("a", (ONE,))], False),
    ],
)
def test_who_waits_for_whom_is_asked_where_a_listing_shows_a_circle(
    locks: locknut.Locks,
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
    listed: list[LockInfo],
    circular: bool,
) -> None:
    """For other processes a listing shows all that there is: without a circle nothing is asked."""
    asked: list[locknut.Locks] = []

    def cycles(given: locknut.Locks) -> list[tuple[Member, ...]]:
        asked.append(given)
        return []

    monkeypatch.setattr(locks, "list", lambda: listed)
    observer = watch(locks, seams=Seams(cycles=cycles))
    observer.look()
    assert asked == [locks] * circular


def test_what_may_be_a_deadlock_is_looked_at_again_soon(locks: locknut.Locks, watch: Watch) -> None:
    """However seldom somebody wants to look: the second look is what tells."""
    cycles: list[tuple[Member, ...]] = []
    observer = watch(locks, refresh=600.0, seams=Seams(cycles=lambda _: cycles))
    with Waiters() as waiters, locks.lock("a"), locks.lock("b"):
        waiters.queue_up(locks, "a")
        waiters.queue_up(locks, "b")
        observer.look()
        observer.look()
        assert observer.picture.pause >= 600.0
        cycles.append((Member("web-1:1", "b", 1), Member("web-2:2", "a", 2)))
        observer.look()
        assert observer.picture.pause == SOON
        observer.look()
        assert observer.cycles == cycles
        assert observer.picture.pause >= 600.0


def test_a_part_that_fails_stops_nothing(locks: locknut.Locks, watch: Watch) -> None:
    def broken(_: locknut.Locks) -> list[Concern]:
        raise locknut.BackendError("not today")

    observer = watch(locks, seams=Seams(cycles=broken, checkup=broken))  # type: ignore[arg-type]
    with Waiters() as waiters, locks.lock("a"), locks.lock("b"):
        waiters.queue_up(locks, "a")
        waiters.queue_up(locks, "b")
        observer.doctor.wanted = True
        observer.start()
        until(lambda: observer.doctor.findings, "the doctor was asked")
        assert observer.picture.held == 2
        assert "not today" in observer.concerns()[0].detail


def test_a_viewer_that_fails_blinds_no_other(
    locks: locknut.Locks, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise RuntimeError("closed")

    observer, rung = watch(locks), threading.Semaphore(0)
    observer.view(fails)
    observer.view(rung.release)
    observer.start()
    for _ in range(3):
        assert rung.acquire(timeout=DEADLINE)
    assert "a viewer of memory:" in caplog.text


@pytest.mark.parametrize("starts", [True, False])
def test_a_checkup_that_fails_in_an_odd_way_is_told_and_stops_nothing(
    locks: locknut.Locks, watch: Watch, monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    def odd(_: locknut.Locks) -> list[Concern]:
        raise IndexError("odd")

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("no thread: odd")

    observer = watch(locks, seams=Seams(checkup=odd))
    observer.start()
    until(lambda: observer.picture.version, "it looks")
    if not starts:
        monkeypatch.setattr(threading.Thread, "start", refused)
    observer.doctor.wanted = True
    until(lambda: observer.doctor.findings, "it is told")
    (told,) = observer.doctor.findings
    assert "odd" in told.detail
    seen = observer.picture.version
    until(lambda: observer.picture.version > seen + 2, "it looks on")
    monkeypatch.undo()


@pytest.mark.redis
def test_an_engine_that_goes_away_and_comes_back(watch: Watch) -> None:
    with RedisServer() as server, locknut.connect(server.url) as locks:
        observer = watch(locks, refresh=0.05)
        lease = held(locks, "x")
        observer.look()
        assert observer.picture.held == 1
        server.kill()
        observer.look()
        assert observer.picture.problem
        assert observer.picture.held == 1, "what was seen stays on the screen"
        (concern, *_) = observer.concerns()
        assert concern.kind == "unreachable"
        server.start()

        def answers() -> bool:
            observer.look()
            return not observer.picture.problem

        until(answers, "it answers again")
        assert observer.picture.held == 0, "it came back empty"
        (over,) = observer.history.of("x").holds
        assert over.ending is Ending.UNSEEN
        kinds = [each.kind for each in observer.happenings]
        assert kinds.index("unreachable") < kinds.index("reachable")
        del lease


@pytest.mark.redis
def test_a_lease_that_ran_out_is_named(redis_server: RedisServer, watch: Watch) -> None:
    namespace = "observed-loss"
    with (
        locknut.connect(redis_server.url, namespace=namespace) as other,
        locknut.connect(redis_server.url, namespace=namespace) as locks,
    ):
        observer = watch(locks)
        seen_low: list[Concern] = []

        def look() -> bool:
            observer.look()
            seen_low.extend(each for each in observer.concerns() if each.kind == "expiring")
            return not observer.picture.held

        other.lock("x", ttl=2, auto_renew=False).acquire()
        observer.look()
        assert observer.picture.held == 1
        until(look, "its ttl is over")
        assert seen_low
        assert [each.kind for each in observer.concerns()] == ["expired"]


def test_what_the_program_itself_lost_is_named_by_it(locks: locknut.Locks, watch: Watch) -> None:
    observer = watch(locks)
    lease = held(locks, "x")
    observer.look()
    with locknut.connect(locks.place) as other:
        other.force_release("x", lease.fence)
    until(lambda: not lease.held, "the holder knows")
    until(lambda: "lost" in [each.kind for each in observer.happenings], "the event came")
    observer.look()
    assert [each.kind for each in observer.concerns()] == ["lost"]
