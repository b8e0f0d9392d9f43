"""What an engine's history tells an observer of the time before it began."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

import pytest

import locknut
from locknut import HistoryEntry, Locks
from locknut.observer import summaries
from locknut.observer.earlier_events import earlier
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.seams import Seams
from locknut.observer.sightings import Ending


def entry(time: float, kind: str, name: str = "x", **facts: object) -> HistoryEntry:
    known = {"fence": 7, "host": "web-3", "pid": 41, "label": "shop", **facts}
    return HistoryEntry(time, kind, name, **known)  # type: ignore[arg-type]


def test_a_hold_is_put_together_from_its_fence() -> None:
    found = earlier(
        [
            entry(10.0, "granted", waited=4.0),
            entry(11.0, "granted", fence=8),
            entry(15.0, "released", held=5.0),
        ],
        before=100.0,
    )
    (hold,) = found.holds["x"]
    assert (hold.since, hold.until, hold.ending) == (10.0, 15.0, Ending.RELEASED)
    assert (hold.holder.fence, hold.holder.label) == (7, "shop")
    (wait,) = found.waits["x"]
    assert (wait.since, wait.until, wait.ending) == (6.0, 10.0, Ending.GRANTED)
    assert [(each.kind, each.detail) for each in found.happenings] == [
        ("granted", "waited 4.0 s"), ("granted", ""), ("released", "after 5.0 s"),
    ]  # fmt: skip


def test_a_break_and_the_loss_that_follows_are_one_ending() -> None:
    broken = entry(20.0, "broken", reason="stuck", label="operator", pid=99)
    lost = entry(21.0, "lost", reason="it was broken: stuck")
    found = earlier([entry(10.0, "granted"), broken, lost], before=100.0)
    (ended,) = found.bad_endings
    assert (ended.ending, ended.note, ended.holder.label) == (Ending.BROKEN, "stuck", "shop")
    assert [each.who for each in found.happenings][1:] == ["operator@web-3:99", "shop@web-3:41"]


def test_of_a_hold_whose_grant_is_forgotten_the_end_is_known() -> None:
    found = earlier([entry(20.0, "broken", label="operator")], before=100.0)
    (ended,) = found.bad_endings
    assert (ended.since, ended.until, ended.holder.label) == (20.0, 20.0, "")
    (lost,) = earlier([entry(20.0, "lost", held=3.0)], before=100.0).bad_endings
    assert (lost.since, lost.holder.label) == (17.0, "shop")


def test_what_the_observer_sees_itself_is_left_to_it() -> None:
    found = earlier([entry(10.0, "granted"), entry(15.0, "released")], before=12.0)
    assert not found.holds
    assert [each.kind for each in found.happenings] == ["granted"]


def test_what_is_left_out_and_has_no_name_is_told() -> None:
    (told,) = earlier([HistoryEntry(1.0, "omitted", reason="3 granted")], before=2.0).happenings
    assert (told.kind, told.who, told.detail) == ("omitted", "", "3 granted")


def test_it_is_read_at_once_and_again_when_writers_had_their_time() -> None:
    asked: list[int] = []

    def history(_locks: Locks) -> Iterable[HistoryEntry]:
        asked.append(len(asked))
        return [entry(float(number), "granted", fence=number) for number in range(len(asked))]

    with locknut.connect("memory:past-read-twice") as locks:
        observer = PlaceObserver(locks, seams=Seams(history=history))
        with closing(observer):
            for _ in range(5):
                observer.look()
        assert len(asked) == 2
        assert len(observer.events()) == 2, "the second reading replaces the first"


def test_an_engine_that_does_not_tell_is_a_note_and_no_more() -> None:
    def history(_locks: Locks) -> Iterable[HistoryEntry]:
        raise locknut.BackendError("no right to read the table", backend="memory")

    with locknut.connect("memory:past-untold") as locks:
        observer = PlaceObserver(locks, seams=Seams(history=history))
        with closing(observer):
            observer.look()
        (told,) = observer.concerns()
        assert told.kind == "history"
        assert "no right to read the table" in told.detail


@pytest.mark.usefixtures("patient_closing")
def test_a_timeline_begins_before_the_observer() -> None:
    with locknut.connect("memory:past-timeline", history=50) as before, before.lock("x"):
        pass
    with locknut.connect("memory:past-timeline") as locks:
        observer = PlaceObserver(locks)
        with closing(observer):
            observer.look()
        (hold,), waits = summaries.spans_of(observer, "x")
        assert (hold.ending, waits) == (Ending.RELEASED, [])
        assert len(summaries.durations(observer, "x")[0]) == 1
