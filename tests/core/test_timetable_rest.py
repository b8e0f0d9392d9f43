from __future__ import annotations

from collections import OrderedDict

from locknut.core.holding import Hold
from locknut.core.lock_request import LockOptions
from locknut.core.runtime_port import NEVER
from locknut.core.timetable import Timetable
from locknut.core.values import Claim, Granted


def a_hold() -> Hold:
    return Hold(Claim("key", "id", 30.0), LockOptions(), Granted(1), 0.0, None)


def test_many_short_holds_wake_the_keeper_once() -> None:
    timetable = Timetable()
    wakes = 0
    for moment in range(1000):
        now = moment / 1000
        hold = a_hold()
        wakes += timetable.add(hold, now, 10.0)
        timetable.rest(now, timetable.stir())  # woken, the keeper looks and goes back to sleep
        timetable.remove(hold)
        timetable.rest(now, timetable.stir())

    assert wakes == 1


def test_the_keeper_looks_at_the_time_it_was_woken_for_and_then_sleeps_on() -> None:
    timetable = Timetable()
    hold = a_hold()
    assert timetable.add(hold, 0.0, 10.0)
    timetable.remove(hold)

    assert timetable.rest(1.0, timetable.stir()) == 10.0
    assert timetable.rest(10.0, timetable.stir()) == NEVER


def test_a_hold_that_is_due_earlier_wakes_the_keeper() -> None:
    timetable = Timetable()
    assert timetable.add(a_hold(), 0.0, 10.0)
    timetable.rest(0.0, timetable.stir())

    assert not timetable.add(a_hold(), 1.0, 10.0)
    assert timetable.add(a_hold(), 1.0, 5.0)
    assert timetable.rest(1.0, timetable.stir()) == 6.0


def test_a_keeper_that_sleeps_for_want_of_work_is_woken_by_the_next_hold() -> None:
    timetable = Timetable()
    hold = a_hold()
    timetable.add(hold, 0.0, 10.0)
    timetable.remove(hold)
    assert timetable.rest(20.0, timetable.stir()) == NEVER

    assert timetable.add(a_hold(), 21.0, 10.0)


def test_who_is_due_soon_is_taken_along_but_wakes_nobody() -> None:
    timetable = Timetable()
    holds = [a_hold() for _ in range(4)]
    for hold, moment in zip(holds, (0.0, 0.5, 1.0, 1.1), strict=True):
        timetable.add(hold, moment, 10.0)
    once = a_hold()
    timetable.add_once(once, 10.5)

    assert timetable.pop_due(9.9) == []
    assert timetable.next_due() == 10.0
    assert timetable.pop_due(10.0) == holds[:3]
    assert timetable.pop_due(10.0) == []
    assert timetable.next_due() == 10.5
    assert timetable.pop_due(10.5) == [once, holds[3]]
    assert timetable.next_due() == NEVER


def test_an_empty_fifo_that_an_interrupt_left_is_nobody() -> None:
    timetable = Timetable()
    timetable._fifos[10.0] = OrderedDict()
    assert timetable.next_due() == NEVER
    assert timetable.pop_due(100.0) == []

    hold = a_hold()
    timetable.add(hold, 100.0, 10.0)
    assert timetable.pop_due(110.0) == [hold]


def test_who_comes_late_to_a_fifo_is_not_late_by_more_than_its_slack() -> None:
    timetable = Timetable()
    first, near, far = a_hold(), a_hold(), a_hold()
    timetable.add(first, 5.0, 10.0, 1.0)
    timetable.add(near, 4.5, 10.0, 1.0)
    timetable.add(far, 1.0, 10.0, 1.0)

    assert (first.due, near.due, far.due) == (15.0, 15.0, 11.0)
    assert timetable.next_due() == 11.0
    assert timetable.pop_due(11.0) == [far]


def test_what_was_put_in_twice_for_the_same_moment_is_due_once() -> None:
    """What is taken out of the heap stays in it, to be passed over."""
    timetable, hold = Timetable(), a_hold()
    timetable.add_once(hold, 10.0)
    timetable.remove(hold)
    timetable.add_once(hold, 10.0)
    assert timetable.pop_due(10.0) == [hold]
    assert timetable.pop_due(10.0) == []


def test_a_hold_that_was_put_off_is_not_due_at_its_former_time() -> None:
    timetable = Timetable()
    hold = a_hold()
    timetable.add_once(hold, 5.0)
    timetable.remove(hold)
    timetable.add_once(hold, 50.0)
    assert timetable.pop_due(10.0) == []
    assert timetable.pop_due(50.0) == [hold]
