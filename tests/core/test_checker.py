"""Each rule of the checker passes a good history and fails a bad one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from locknut.core.values import Mode
from tests.simulation.checker import Assumptions, check
from tests.simulation.checker.history import Event, Kind

K = Kind


def event(t: float, who: str, kind: Kind, hold: str = "", **more: Any) -> Event:
    return Event(t, who, kind, more.pop("name", "n"), hold, **more)


def hold(
    who: str, at: float, fence: int, until: float, released: float | None = None, **more: Any
) -> list[Event]:
    """An acquire called just before `at`, granted, and released (or not)."""
    which = f"{who}-{fence}"
    events = [
        event(at - 0.25, who, K.CALLED, which, **more),
        event(at, who, K.ACQUIRED, which, fence=fence, until=until, **more),
    ]
    if released is not None:
        events += [
            event(released, who, K.RELEASE_CALLED, which),
            event(released + 0.1, who, K.RELEASED, which),
        ]
    return events


def broken(history: list[Event], assumptions: Assumptions | None = None) -> set[str]:
    return {violation.rule for violation in check(history, assumptions)}


GOOD = [
    *hold("p", 1, 32, until=11, released=2),
    *hold("q", 3, 64, until=13, released=4),
    event(9, "", K.ENDED),
]


def test_a_good_history_passes() -> None:
    assert check(GOOD) == []


def test_every_violation_tells_the_events_that_show_it() -> None:
    (found,) = check([*hold("p", 1, 32, until=9), *hold("q", 2, 64, until=3, released=2.5)])
    assert "two valid holds" in str(found)
    assert "p-32" in str(found)
    assert "q-64" in str(found)


class TestExclusion:
    def test_two_valid_exclusive_holds(self) -> None:
        assert "a" in broken([*hold("p", 1, 32, until=5), *hold("q", 4.9, 64, until=9)])

    def test_one_after_the_other_is_fine(self) -> None:
        assert not broken([*hold("p", 1, 32, until=5), *hold("q", 5, 64, until=9)])

    def test_a_hold_ends_where_its_release_is_called(self) -> None:
        assert not broken([*hold("p", 1, 32, until=9, released=2), *hold("q", 2, 64, until=9)])

    def test_a_dead_process_believes_nothing(self) -> None:
        crash = event(2, "p", K.CRASHED)
        assert not broken([*hold("p", 1, 32, until=None), crash, *hold("q", 2.5, 64, until=9)])  # type: ignore[arg-type]

    def test_a_stopped_process_believes_to_the_end_of_its_validity(self) -> None:
        pause = event(2, "p", K.PAUSED)
        assert "a" in broken([*hold("p", 1, 32, until=5), pause, *hold("q", 3, 64, until=9)])

    def test_readers_share_and_writers_do_not(self) -> None:
        readers = [
            *hold("p", 1, 32, until=9, mode=Mode.SHARED),
            *hold("q", 2, 64, until=9, mode=Mode.SHARED),
        ]
        assert not broken(readers)
        assert "a" in broken([*readers, *hold("w", 3, 96, until=9)])

    def test_a_downgraded_writer_is_a_reader(self) -> None:
        writer = [*hold("w", 1, 32, until=9), event(2, "w", K.DOWNGRADED, "w-32")]
        assert not broken([*writer, *hold("q", 3, 64, until=9, mode=Mode.SHARED)])
        assert "a" in broken([*writer, *hold("q", 1.5, 64, until=9, mode=Mode.SHARED)])

    def test_no_more_permits_than_permits(self) -> None:
        two: dict[str, Any] = {"mode": Mode.PERMIT, "permits": 2}
        holds = [*hold("p", 1, 32, until=9, **two), *hold("q", 2, 64, until=9, **two)]
        assert not broken(holds)
        assert "a" in broken([*holds, *hold("r", 3, 96, until=9, **two)])

    def test_an_old_hold_comes_back_with_its_number_to_owners_only(self) -> None:
        given = Assumptions(
            exclusion_void_after=frozenset({K.FORGOT, K.BROKEN}), old_holds_come_back=True
        )
        forgot = event(2.5, "engine", K.FORGOT)
        owned = [
            *hold("p", 1, 64, until=9, released=2, owner="o"),
            forgot,
            *hold("q", 3, 32, until=9, released=4, owner="o"),
        ]
        plain = [each._replace(owner=None) for each in owned]
        assert not broken(owned, given)
        assert broken(owned, replace(given, old_holds_come_back=False)) == {"b"}
        assert broken(plain, given) == {"b"}
        assert broken([each for each in owned if each is not forgot], given) == {"b"}

    def test_co_owners_are_one(self) -> None:
        mine = [*hold("p", 1, 32, until=9, owner="o"), *hold("q", 2, 32, until=9, owner="o")]
        assert not broken(mine)
        assert "a" in broken([*mine, *hold("r", 3, 64, until=9, owner="other")])

    def test_what_an_engine_may_assume_is_data(self) -> None:
        history = [
            *hold("p", 1, 32, until=9),
            event(2, "", K.FORGOT, name=""),
            *hold("q", 3, 64, until=9),
        ]
        assert "a" in broken(history)
        assert not broken(history, Assumptions(exclusion_void_after=frozenset({K.FORGOT})))


class TestFences:
    def test_given_twice(self) -> None:
        one, two = hold("p", 1, 32, until=9, released=2), hold("q", 3, 32, until=9, released=4)
        assert "b" in broken([*one, *two])

    def test_an_attached_hold_goes_on_with_its_fence_once(self) -> None:
        detached = [*hold("p", 1, 32, until=9), event(2, "p", K.DETACHED, "p-32")]
        attached = hold("q", 3, 32, until=9, released=4)
        assert not broken([*detached, *attached])
        assert "b" in broken([*detached, *attached, *hold("r", 5, 32, until=9, released=6)])

    def test_a_fence_that_goes_back(self) -> None:
        one, two = hold("p", 1, 64, until=9, released=2), hold("q", 3, 32, until=9, released=4)
        assert "b" in broken([*one, *two])

    def test_overlapping_calls_may_return_in_any_order(self) -> None:
        permits: dict[str, Any] = {"mode": Mode.PERMIT, "permits": 2}
        one = hold("p", 1, 64, until=9, released=2, **permits)
        two = hold("q", 1.1, 32, until=9, released=2, **permits)
        assert not broken([*one, *two])

    def test_exclusive_holds_valid_one_after_the_other_grow_even_if_their_calls_overlapped(
        self,
    ) -> None:
        one, two = hold("p", 1, 64, until=9, released=1.05), hold("q", 1.1, 32, until=9)
        assert "b" in broken([*one, *two])

    def test_the_order_of_validity_means_nothing_after_a_break(self) -> None:
        one, two = hold("p", 1, 64, until=9, released=1.05), hold("q", 1.1, 32, until=9)
        assert not broken([*one, *two, event(0.9, "", K.BROKEN)])

    def test_a_broken_hold_may_be_handed_over_inside_its_process_below_the_newcomer(self) -> None:
        first, newcomer = hold("p", 1, 32, until=9, released=3), hold("q", 2, 64, until=2.5)
        handed = [*first, *newcomer, *hold("p", 4, 33, until=9, released=5)]
        broke = event(1.5, "", K.BROKEN)
        assert not broken([*handed, broke])
        assert "b" in broken(handed)
        assert "b" in broken([*newcomer, *hold("p", 4, 32, until=9, released=5), broke])

    def test_and_be_held_beside_the_newcomer_by_one_that_asked_after_the_break(self) -> None:
        """As long as the process does not know of the break: it hands the hold over until then."""
        first, heir = hold("p", 1, 32, until=9, released=2), hold("p", 2, 33, until=9, released=5)
        beside = [*first, *heir, *hold("q", 3, 64, until=9, released=4)]
        broke = event(1.5, "", K.BROKEN)
        assert not broken([*beside, broke])
        assert "a" in broken(beside)
        other = [*first, *hold("p", 2, 48 * 32, until=9, released=5), *hold("q", 3, 64, until=4)]
        assert "a" in broken([*other, broke])  # a hold that began after the break

    def test_a_stopped_client_that_returns_late_and_invalid_is_harmless(self) -> None:
        late = [
            event(0, "p", K.CALLED, "p1"),
            *hold("q", 5, 64, until=9, released=6),
            event(8, "p", K.ACQUIRED, "p1", fence=32, until=4),
        ]
        assert not broken(late)


class TestResource:
    def step(self, t: float, kind: Kind, fence: int, value: int | None = None) -> Event:
        return event(t, "p", kind, f"h{fence}", fence=fence, value=value)

    def test_a_stale_write_that_was_refused(self) -> None:
        history = [
            self.step(1, K.ENTERED, 32),
            self.step(2, K.READ, 32, 0),
            self.step(3, K.ENTERED, 64),
            self.step(4, K.READ, 64, 0),
            self.step(5, K.REFUSED, 32),
            self.step(6, K.WROTE, 64, 1),
        ]
        assert not broken(history)
        history[4] = self.step(5, K.WROTE, 32, 1)
        assert "c" in broken(history)

    def test_a_refusal_without_a_reason(self) -> None:
        assert "c" in broken([self.step(1, K.ENTERED, 32), self.step(2, K.REFUSED, 32)])

    def test_a_lost_update(self) -> None:
        history = [
            self.step(1, K.READ, 64, 0),
            self.step(2, K.READ, 32, 0),
            self.step(3, K.WROTE, 32, 1),
            self.step(4, K.WROTE, 64, 1),
        ]
        assert "c" in broken(history)


class TestLoss:
    def test_renewed_in_time(self) -> None:
        renewal = event(4, "p", K.RENEWED, "p-32", until=8)
        assert not broken([*hold("p", 1, 32, until=5, released=6), renewal])

    def test_revived(self) -> None:
        renewal = event(5, "p", K.RENEWED, "p-32", until=9)
        assert "d" in broken([*hold("p", 1, 32, until=5, released=6), renewal])

    def test_believed_after_its_validity(self) -> None:
        assert not broken([*hold("p", 1, 32, until=5), event(4, "p", K.CHECKED, "p-32")])
        assert "d" in broken([*hold("p", 1, 32, until=5), event(6, "p", K.CHECKED, "p-32")])

    def test_a_false_loss(self) -> None:
        lost = event(4, "p", K.LOST, "p-32")
        assert "d" in broken([*hold("p", 1, 32, until=5), lost])
        assert not broken([*hold("p", 1, 32, until=4), lost])

    def test_an_early_loss_with_a_reason(self) -> None:
        history = [
            *hold("p", 1, 32, until=5),
            event(3, "", K.BROKEN),
            event(4, "p", K.LOST, "p-32"),
        ]
        assert not broken(history)

    def test_told_lost_after_a_release(self) -> None:
        lost = event(6, "p", K.LOST, "p-32")
        assert "d" in broken([*hold("p", 1, 32, until=5, released=2), lost])

    def test_a_break_that_meets_the_release_is_told_a_moment_later(self) -> None:
        held = hold("p", 1, 32, until=5, released=2)
        for note in ("broken", "broken: stuck"):
            assert not broken([*held, event(2.2, "p", K.LOST, "p-32", note=note)])
        assert "d" in broken([*held, event(2.2, "p", K.LOST, "p-32", note="taken")])

    def test_a_release_that_finds_the_loss(self) -> None:
        lost = event(6.05, "p", K.LOST, "p-32")
        assert not broken([*hold("p", 1, 32, until=5, released=6), lost])

    def test_a_loss_nobody_was_told_of(self) -> None:
        history = [*hold("p", 1, 32, until=5), event(9, "", K.ENDED)]
        assert not broken(history)
        assert "d" in broken(history, Assumptions(told_within=0.5))
        stopped = [*history, event(2, "p", K.PAUSED), event(8.9, "p", K.RESUMED)]
        assert not broken(stopped, Assumptions(told_within=0.5))

    def test_an_event_of_an_unknown_hold(self) -> None:
        assert "d" in broken([event(1, "p", K.RENEWED, "nobody", until=4)])


class TestOwnership:
    def granted(self, t: float, hold: str, until: float) -> Event:
        return event(t, "engine", K.GRANTED, hold, by=hold, until=until)

    def test_released_by_another_claim(self) -> None:
        grant = self.granted(1, "x", 9)
        assert not broken([grant, event(2, "engine", K.FREED, "x", by="x")])
        assert "e" in broken([grant, event(2, "engine", K.FREED, "x", by="y")])

    def test_renewed_by_another_claim(self) -> None:
        grant = self.granted(1, "x", 9)
        assert not broken([grant, event(2, "engine", K.EXTENDED, "x", by="x", until=12)])
        assert "e" in broken([grant, event(2, "engine", K.EXTENDED, "x", by="y", until=12)])

    def test_revived_or_created_by_renewal(self) -> None:
        extended = event(9, "engine", K.EXTENDED, "x", by="x", until=12)
        assert "e" in broken([self.granted(1, "x", 9), extended])
        assert "e" in broken([extended])


class TestProgress:
    BOUND = Assumptions(free_within=1)

    def wanted(self, *more: Event) -> list[Event]:
        return [
            event(1, "engine", K.GRANTED, "x", by="x", until=3),
            event(2, "p", K.CALLED, "p1"),
            *more,
        ]

    def test_free_and_wanted_for_too_long(self) -> None:
        assert "f" in broken(self.wanted(event(5, "p", K.TIMED_OUT, "p1")), self.BOUND)

    def test_taken_in_time(self) -> None:
        grant = event(3.5, "engine", K.GRANTED, "y", by="y", until=9)
        outcome = event(9.5, "p", K.TIMED_OUT, "p1")
        assert not broken(self.wanted(grant, outcome), self.BOUND)

    def test_not_while_faults_are_at_work(self) -> None:
        outcome = event(5, "p", K.TIMED_OUT, "p1")
        faults = [event(3.5, "", K.DISTURBED), event(4.5, "", K.CALM)]
        assert not broken(self.wanted(outcome, *faults), self.BOUND)

    def test_not_while_the_waiter_is_stopped(self) -> None:
        outcome = event(5, "p", K.TIMED_OUT, "p1")
        pause = [event(3.5, "p", K.PAUSED), event(4.5, "p", K.RESUMED)]
        assert not broken(self.wanted(outcome, *pause), self.BOUND)

    def test_a_reader_may_have_to_wait_for_a_waiting_writer(self) -> None:
        history = [
            event(1, "engine", K.GRANTED, "x", by="x", until=30, mode=Mode.SHARED),
            event(2, "r", K.CALLED, "r1", mode=Mode.SHARED),
            event(9, "r", K.TIMED_OUT, "r1"),
        ]
        writer = [event(1.5, "w", K.CALLED, "w1"), event(9, "w", K.TIMED_OUT, "w1")]
        assert "f" in broken(history, self.BOUND)
        assert not broken(history + writer, self.BOUND)

    def test_a_free_permit_nobody_is_given(self) -> None:
        two: dict[str, Any] = {"mode": Mode.PERMIT, "permits": 2}
        history = [
            event(1, "engine", K.GRANTED, "x", by="x", until=30, **two),
            event(2, "r", K.CALLED, "r1", **two),
            event(9, "r", K.TIMED_OUT, "r1", **two),
        ]
        assert "f" in broken(history, self.BOUND)
        full = event(1, "engine", K.GRANTED, "z", by="z", until=30, **two)
        assert not broken([full, *history], self.BOUND)

    def test_held_in_the_engine_and_used_by_nobody(self) -> None:
        history = [
            event(1, "engine", K.GRANTED, "x", by="x", until=30),
            event(2, "p", K.CALLED, "p1"),
            event(20, "p", K.TIMED_OUT, "p1"),
        ]
        assert not broken(history, Assumptions(free_within=1, idle_within=19))
        assert "f" in broken(history, Assumptions(free_within=1, idle_within=10))


class TestTurns:
    def fair(self, who: str, called: float, acquired: float, fence: int) -> list[Event]:
        which = f"{who}-{fence}"
        return [
            event(called, who, K.CALLED, which, fair=True),
            event(called + 0.1, who, K.WAITING, which),
            event(acquired, who, K.ACQUIRED, which, fence=fence, until=acquired + 0.1),
        ]

    def test_first_come_first_served(self) -> None:
        given = Assumptions(fifo=True)
        assert not broken([*self.fair("p", 1, 5, 32), *self.fair("q", 2, 6, 64)], given)
        overtaken = [*self.fair("p", 1, 6, 64), *self.fair("q", 2, 5, 32)]
        assert "f" in broken(overtaken, given)
        assert not broken(overtaken)
        disturbed = [*overtaken, event(4, "", K.DISTURBED)]
        assert not broken(disturbed, given)
        assert "f" in broken(disturbed, replace(given, fifo_amid_faults=True))
        assert not broken([*overtaken, event(4, "p", K.PAUSED)], given)

    def test_who_gives_up_may_have_left_the_line_a_little_before(self) -> None:
        given = Assumptions(fifo=True)
        served = self.fair("q", 2, 5, 32)
        waits = self.fair("p", 1, 9, 64)[:2]
        gave_up = event(5.1, "p", K.TIMED_OUT, "p-64")
        assert not broken([*waits, gave_up, *served], given)
        assert "f" in broken([*waits, gave_up._replace(t=8), *served], given)

    def test_together_in_any_order(self) -> None:
        given = Assumptions(fifo=True)
        assert not broken([*self.fair("p", 1, 6, 64), *self.fair("q", 1.05, 5, 32)], given)


class TestLeftovers:
    def test_something_is_left(self) -> None:
        assert "g" in broken([event(9, "engine", K.LEFT, note="a hold")])

    def test_a_call_that_never_came_back(self) -> None:
        history = [event(1, "p", K.CALLED, "p1"), event(9, "", K.ENDED)]
        assert "g" in broken(history)
        assert not broken([*history, event(2, "p", K.CRASHED)])

    def test_granted_after_it_was_taken_back(self) -> None:
        taken_back = event(2, "engine", K.WITHDRAWN, "x", by="x")
        late = event(3, "engine", K.GRANTED, "x", by="x", until=9)
        assert "g" in broken([taken_back, late])
        in_time = [late, taken_back._replace(t=4)]
        assert not broken([*in_time, event(4, "engine", K.FREED, "x", by="x")])
        assert "g" in broken(in_time)

    def test_never_released(self) -> None:
        history = [*hold("p", 1, 32, until=None), event(9, "", K.ENDED)]  # type: ignore[arg-type]
        assert "g" in broken(history)


def test_three_hundred_thousand_events_are_judged() -> None:
    history: list[Event] = []
    for i in range(75_000):
        who, at = f"p{i % 50}", i * 1.0
        history += hold(who, at + 0.25, (i + 1) * 32, at + 9, released=at + 0.5, name=f"n{i % 7}")
    intruder = hold("x", 400.3, 10**9, until=500, name="n1")
    everything = Assumptions(told_within=1, free_within=60, idle_within=60, fifo=True)
    assert broken([*history, *intruder], everything) == {"a", "b", "d"}
