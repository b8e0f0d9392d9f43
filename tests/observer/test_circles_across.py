"""A deadlock through two places is found in their listings, once all of it was there at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

import locknut
from locknut import Holder, LockInfo
from locknut.observer.circles_across import CirclesAcross
from locknut.observer.place_observer import PlaceObserver
from tests.observer.people import deadlock_through

Two = dict[str, PlaceObserver]


@pytest.fixture
def two() -> Iterator[Two]:
    with ExitStack() as stack:
        locks = [stack.enter_context(locknut.connect(f"memory:{name}")) for name in ("one", "two")]
        yield {each.place: stack.enter_context(closing(PlaceObserver(each))) for each in locks}


def look(across: CirclesAcross, *observers: PlaceObserver) -> list[str]:
    """After a listing of each: the titles of what it found."""
    for each in observers:
        each.look()
        across.look()
    return [concern.title for _, concern in across.concerns()]


def test_each_place_is_listed_anew_after_it_was_first_seen(two: Two) -> None:
    one, other = two.values()
    across = CirclesAcross(two)
    with deadlock_through(one.locks, other.locks):
        assert look(across, one, other) == []
        assert look(across, one) == [], "the other listing is as old as the suspicion"
        assert look(across, other) == ["is in a deadlock of 2 through 2 places: x -> x -> x"]
        assert not one.cycles
        assert not other.cycles
        ((at, concern),) = across.concerns()
        assert at in two
        assert all(f"waits for x in {each.place}" in concern.detail for each in two.values())
        assert "bank-1" in concern.detail
        assert [each for each, _ in across.concerns(one.place)] == [at]
        assert across.concerns("elsewhere") == []
    assert look(across, one, other) == []


def test_a_circle_whose_holds_change_is_none(two: Two) -> None:
    """The same two in the same circle, each time by other holds: they go on."""
    across = CirclesAcross(two)
    (one, first), (other, second) = two.items()
    for fence in range(1, 6):
        for observer, holder, waiter in ((first, "p.1", "p.2"), (second, "p.2", "p.1")):
            observer.look()
            info = LockInfo("x", (Holder(raw=fence, party=holder),), (Holder(party=waiter),))
            observer.picture = observer.picture._replace(locks=(info,))
            across.look()
            assert not across.cycles, (one, other)


def test_a_deadlock_in_one_place_is_not_its_affair(two: Two) -> None:
    across = CirclesAcross(two)
    circle = (
        LockInfo("x", (Holder(raw=1, party="p.1"),), (Holder(party="p.2"),)),
        LockInfo("y", (Holder(raw=2, party="p.2"),), (Holder(party="p.1"),)),
    )
    for _ in range(3):
        for each in two.values():  # one engine by two names
            each.look()
            each.picture = each.picture._replace(locks=circle)
            across.look()
    assert not across.cycles


def test_a_place_that_does_not_answer_is_left_out(two: Two) -> None:
    one, other = two.values()
    across = CirclesAcross(two)
    with deadlock_through(one.locks, other.locks):
        assert look(across, one, other, one, other)
        other.picture = other.picture._replace(problem="no route to host")
        assert look(across, one) == []
