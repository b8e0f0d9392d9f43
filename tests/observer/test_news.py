"""What others broke or lost while an observer looks: listings do not tell, their history does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

import locknut
from locknut import HistoryEntry
from locknut.core import recording
from locknut.observer import news, summaries
from locknut.observer.news import KNOWN, LATE, NewsReader
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.seams import Seams
from locknut.observer.sightings import Ending
from tests.observer.people import held
from tests.servers.processes import until

pytestmark = pytest.mark.usefixtures("patient_closing")


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(recording, "PAUSE", 0.05)
    places = {
        "memory": f"memory:{abs(hash(request.node.nodeid))}",
        "file": f"file://{tmp_path}/locks",
    }
    return places[request.param]


@pytest.fixture
def observer(url: str) -> Iterator[PlaceObserver]:
    """As `locknut dash` has one: nobody tells it anything but the engine."""
    with locknut.connect(url) as locks, closing(PlaceObserver(locks)) as made:
        yield made


@pytest.fixture
def others(url: str) -> Iterator[locknut.Locks]:
    with locknut.connect(url, history=100, label="nightly") as locks:
        yield locks


def kinds(observer: PlaceObserver) -> list[str]:
    return [each.kind for each in observer.events("report")]


def written(locks: locknut.Locks, kind: str) -> None:
    until(lambda: kind in {each.kind for each in locks.history()}, f"{kind} is written down")


@pytest.mark.parametrize("seen", [True, False])
def test_a_break_by_somebody_else_is_no_release(
    observer: PlaceObserver, others: locknut.Locks, seen: bool
) -> None:
    """Whether or not a listing shows that the hold is over before the news of it come."""
    observer.look()
    lease = held(others, "report")
    observer.look()
    others.force_release("report", lease.fence, reason="stuck since four")
    if seen:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(observer._news, "fresh", lambda *_: [])  # they are not there yet
            observer.look()
        assert "released" in kinds(observer)
    written(observer.locks, "lost")
    observer.look()
    observer.look()
    (over,) = observer.endings()
    assert (over.name, over.ending) == ("report", Ending.BROKEN)
    assert "stuck since four" in over.note  # as either of the two wrote it
    assert over.holder.fence == lease.fence
    assert [each.kind for each in observer.concerns()] == ["broken"]
    assert "released" not in kinds(observer)
    assert sorted(kinds(observer)) == ["broken", "granted", "lost"]
    (hold,), _ = summaries.spans_of(observer, "report")
    assert hold.ending is Ending.BROKEN


def test_the_holder_may_speak_before_the_one_who_broke_it(
    observer: PlaceObserver, url: str, others: locknut.Locks
) -> None:
    with locknut.connect(url) as silent:  # it keeps no history
        lease = held(others, "report")
        observer.look()
        silent.force_release("report", lease.fence, reason="stuck")
    written(observer.locks, "lost")
    observer.look()
    (over,) = observer.endings()
    assert over.ending is Ending.BROKEN
    assert "stuck" in over.note


def test_a_hold_that_no_listing_showed(observer: PlaceObserver, others: locknut.Locks) -> None:
    observer.look()
    lease = held(others, "report")
    others.force_release("report", lease.fence, reason="at once")
    written(observer.locks, "broken")
    observer.look()
    (over,) = observer.endings()
    assert (over.ending, over.holder.fence) == (Ending.BROKEN, lease.fence)
    assert "at once" in over.note  # by the one who broke it, or by the one who lost it


def test_what_it_breaks_itself_is_told_once(url: str, others: locknut.Locks) -> None:
    with (
        locknut.connect(url, history=100) as locks,
        closing(PlaceObserver(locks)) as observer,
    ):
        observer.look()
        lease = held(others, "report")
        observer.look()
        assert observer.break_hold("report", lease.fence, "stuck")
        written(locks, "lost")
        written(locks, "broken")
        observer.look()
        observer.look()
        assert len(observer.endings()) == 1
        assert kinds(observer).count("broken") == 1


def test_what_cannot_be_read_is_not_asked_for_again() -> None:
    asked: list[str] = []

    def refuse(_: locknut.Locks, back: float = 0.0) -> Sequence[HistoryEntry]:
        asked.append("news" if back else "past")
        raise locknut.BackendError("permission denied for the table")

    with (
        locknut.connect("memory:refused") as locks,
        closing(PlaceObserver(locks, seams=Seams(history=refuse, news=refuse))) as observer,
    ):
        for _ in range(6):
            observer.look()
        assert asked == ["past", "past"]
        assert [each.kind for each in observer.concerns()] == ["history"]


def test_news_that_fail_once_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time that was missed."""
    clock = itertools.count(100.0)  # each look at it is a second later
    monkeypatch.setattr(news, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    back: list[float] = []

    def ask(seconds: float) -> Sequence[HistoryEntry] | None:
        back.append(seconds)
        return None if len(back) < 3 else ()

    reader = NewsReader()
    assert reader.read(ask) == ()
    assert back == [], "nothing is known of a history yet"
    reader.begin(readable=True)
    for _ in range(4):
        assert reader.read(ask) == ()
    assert back == [LATE + 1.0, LATE + 2.0, LATE + 3.0, LATE + 1.0]


def test_each_entry_is_news_once_and_few_are_remembered() -> None:
    entries = [HistoryEntry(100.0 + at, "lost", "x", id=f"a-{at}") for at in range(KNOWN + 10)]
    reader = NewsReader()
    assert list(reader.fresh([HistoryEntry(200.0, "granted", "x", id="b-1")], 0.0)) == []
    assert list(reader.fresh(entries, 101.0)) == entries[1:]
    assert list(reader.fresh(entries[-100:], 0.0)) == []
    assert len(reader._known) == KNOWN
