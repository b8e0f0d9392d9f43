"""What an observer concludes from two listings: who came, who left, and how each hold ended."""

from __future__ import annotations

import pytest

from locknut import Holder, LockInfo, Mode
from locknut.observer.changes import Tracker
from locknut.observer.sightings import Ending


def holder(
    pid: int, raw: int | None = None, ttl: float | None = None, since: float = 0.0
) -> Holder:
    return Holder("web-1", pid, "MainThread", raw=raw, ttl_left=ttl, since=since)


def locked(by: Holder, *waiters: Holder) -> LockInfo:
    return LockInfo("x", (by,), waiters)


@pytest.fixture
def tracker() -> Tracker:
    return Tracker()


def test_what_is_there_for_the_first_time_began(tracker: Tracker) -> None:
    changes = tracker.take_in(
        [locked(holder(1, 7), holder(2, since=3.0))], 10.0, after_silence=False
    )
    assert [(each.holder.pid, each.since) for each in changes.began_holds] == [(1, 0.0)]
    assert [(each.holder.pid, each.since) for each in changes.began_waits] == [(2, 3.0)]
    again = tracker.take_in([locked(holder(1, 7), holder(2))], 11.0, after_silence=False)
    assert again == ([], [], [], [])


def test_a_hold_that_was_renewed_and_is_gone_was_released(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7, ttl=30.0))], 10.0, after_silence=False)
    tracker.take_in([locked(holder(1, 7, ttl=21.0))], 20.0, after_silence=False)
    (over,) = tracker.take_in([], 41.5, after_silence=False).ended_holds
    assert (over.ending, over.until) == (Ending.RELEASED, 30.75)


def test_a_hold_that_was_not_renewed_to_its_end_expired(tracker: Tracker) -> None:
    for at, left in ((10.0, 9.0), (15.0, 4.0), (18.0, 1.0)):
        tracker.take_in([locked(holder(1, 7, ttl=left))], at, after_silence=False)
    (over,) = tracker.take_in([], 20.0, after_silence=False).ended_holds
    assert (over.ending, over.until) == (Ending.EXPIRED, 19.0)


def test_a_hold_ended_when_the_next_one_began(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7))], 10.0, after_silence=False)
    changes = tracker.take_in([locked(holder(2, 8, since=10.5))], 12.0, after_silence=False)
    assert [each.until for each in changes.ended_holds] == [10.5]


def test_a_hold_that_ran_low_but_was_given_back_in_time_was_released(tracker: Tracker) -> None:
    """Without renewal by its own wish: the ttl was not over when it was gone."""
    for at, left in ((10.0, 9.0), (15.0, 4.0)):
        tracker.take_in([locked(holder(1, 7, ttl=left))], at, after_silence=False)
    (over,) = tracker.take_in([], 17.0, after_silence=False).ended_holds
    assert over.ending is Ending.RELEASED


def test_a_hold_without_a_ttl_never_expires(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7))], 10.0, after_silence=False)
    (over,) = tracker.take_in([], 10_000.0, after_silence=False).ended_holds
    assert over.ending is Ending.RELEASED


def test_what_ended_while_the_engine_was_silent_is_not_judged(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7, ttl=30.0))], 10.0, after_silence=False)
    (over,) = tracker.take_in([], 12.0, after_silence=True).ended_holds
    assert over.ending is Ending.UNSEEN


def test_somebody_who_knows_how_it_ended_is_believed(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7, ttl=30.0))], 10.0, after_silence=False)
    tracker.explain("x", 7 * 32, Ending.BROKEN)
    (over,) = tracker.take_in([], 12.0, after_silence=False).ended_holds
    assert over.ending is Ending.BROKEN


def test_an_explanation_is_for_one_hold_alone(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 8, ttl=30.0))], 10.0, after_silence=False)
    tracker.explain("x", 7 * 32, Ending.BROKEN)
    (over,) = tracker.take_in([], 12.0, after_silence=False).ended_holds
    assert over.ending is Ending.RELEASED


def test_a_waiter_that_holds_the_lock_now_was_granted_it(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7), holder(2, since=4.0))], 10.0, after_silence=False)
    changes = tracker.take_in([locked(holder(2, 8, since=11.0))], 12.0, after_silence=False)
    (over,) = changes.ended_waits
    assert (over.ending, over.since, over.until) == (Ending.GRANTED, 4.0, 11.0)


def test_a_waiter_that_is_gone_left_the_line(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7), holder(2, since=4.0))], 10.0, after_silence=False)
    (over,) = tracker.take_in([locked(holder(1, 7))], 12.0, after_silence=False).ended_waits
    assert over.ending is Ending.LEFT


def test_two_holds_of_one_thread_after_each_other_are_two(tracker: Tracker) -> None:
    tracker.take_in([locked(holder(1, 7))], 10.0, after_silence=False)
    changes = tracker.take_in([locked(holder(1, 8))], 11.0, after_silence=False)
    assert len(changes.began_holds) == len(changes.ended_holds) == 1


def test_readers_are_told_apart(tracker: Tracker) -> None:
    readers = tuple(holder(pid, pid)._replace(mode=Mode.SHARED) for pid in (1, 2, 3))
    tracker.take_in([LockInfo("x", readers)], 10.0, after_silence=False)
    changes = tracker.take_in([LockInfo("x", readers[1:])], 11.0, after_silence=False)
    assert [each.holder.pid for each in changes.ended_holds] == [1]


def test_a_clock_ahead_of_ours_makes_no_negative_age(tracker: Tracker) -> None:
    changes = tracker.take_in([locked(holder(1, 7, since=99.0))], 10.0, after_silence=False)
    assert changes.began_holds[0].since == 10.0
