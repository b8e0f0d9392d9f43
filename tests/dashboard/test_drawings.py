"""What is drawn of the past of a lock: every piece is on its lane, wide enough to be seen."""

from __future__ import annotations

import pytest

from locknut import Holder
from locknut.dashboard import drawings
from locknut.dashboard.drawings import LANES, WIDTH
from locknut.observer.sightings import Ending, Span

NOW = 10_000.0
HOUR = 3600.0


def span(
    since: float, until: float | None = None, ending: Ending = Ending.OPEN, pid: int = 7
) -> Span:
    """In seconds before now."""
    over = None if until is None else NOW - until
    return Span("x", Holder("web-1", pid, raw=3), NOW - since, over, ending)


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(span(0.0), id="begins now"),
        pytest.param(span(0.05, 0.0, Ending.LOST), id="began and ended now"),
        pytest.param(span(1.0, 0.0, Ending.LOST), id="short"),
        pytest.param(span(-5.0), id="begins in the future of another clock"),
        pytest.param(span(2 * HOUR, 0.9 * HOUR), id="began before the lane"),
        pytest.param(span(HOUR, HOUR), id="ended where the lane begins"),
        pytest.param(span(HOUR), id="fills the lane"),
    ],
)
def test_every_piece_can_be_seen_on_its_lane(each: Span) -> None:
    (lane,) = drawings.timeline([each], [span(HOUR)], NOW).lanes
    for piece in lane.pieces:
        assert 0.0 <= piece.x < piece.x + piece.width <= WIDTH + 0.1
        assert piece.width >= 2.9


def test_what_is_heard_of_the_timeline_is_what_is_drawn() -> None:
    """A hold that ended badly before the time that is shown is neither drawn nor counted."""
    old = [span(3 * HOUR, 2 * HOUR, Ending.LOST)] * 5
    drawn = drawings.timeline(
        [*old, span(10.0, 5.0, Ending.BROKEN)], [span(4 * HOUR, 3 * HOUR)], NOW
    )
    assert [len(lane.pieces) for lane in drawn.lanes] == [1]
    assert drawn.lasts == "1h"
    assert drawn.summary == (
        "Timeline of the last 1h: holds 1, waits 0, owners 1, holds that ended badly 1."
    )


def test_the_latest_owners_are_shown_and_the_others_are_counted() -> None:
    holds = [span(100.0 - at, 99.0 - at, Ending.RELEASED, pid=at) for at in range(LANES + 3)]
    drawn = drawings.timeline(holds, [], NOW)
    assert [lane.owner for lane in drawn.lanes] == [
        f"web-1:{at}" for at in reversed(range(3, LANES + 3))
    ]
    assert drawn.hidden == 3


def test_without_a_past_there_is_nothing_to_draw() -> None:
    drawn = drawings.timeline([], [], NOW)
    assert not drawn.lanes
    assert drawn.lasts == "1m"
    assert not drawings.bars([])
    assert not drawings.curve([])


def test_the_most_frequent_bar_is_as_wide_as_there_is_room() -> None:
    found = drawings.bars([0.0005, 0.2, 0.25, 9000.0])
    assert [each.number for each in found if each.number] == [1, 2, 1]
    assert max(each.width for each in found) == WIDTH
    assert (found[0].label, found[-1].label) == ("below 1ms", "2h and more")
    assert [each.width for each in found if not each.number] == [0.0] * (len(found) - 3)


def test_a_curve_stays_in_its_frame() -> None:
    points = [tuple(map(float, each.split(","))) for each in drawings.curve([0, 4, 2]).split()]
    assert points == [(0.0, 23.0), (50.0, 1.0), (100.0, 12.0)]
    assert drawings.curve([0, 0]) == "0.0,23.0 100.0,23.0"
    assert len(drawings.curve(range(100)).split()) == 60
