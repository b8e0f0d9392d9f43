"""How many locks are acquired per second: what was written down is counted once, and no more."""

from __future__ import annotations

from contextlib import closing

import pytest

import locknut
from locknut import HistoryEntry
from locknut.core import recording
from locknut.observer.acquisitions import Acquisitions, Rate, together
from locknut.observer.place_observer import PlaceObserver
from tests.observer.people import held
from tests.servers.processes import until


def written(*numbers: int, kind: str = "granted", name: str = "x") -> list[HistoryEntry]:
    return [HistoryEntry(100.0, kind, name, id=f"a-{number}") for number in numbers]


def left_out(number: int, reason: str) -> list[HistoryEntry]:
    return [HistoryEntry(100.0, "omitted", reason=reason, id=f"b-{number}")]


def read(*readings: list[HistoryEntry], every: float = 10.0) -> Acquisitions:
    made = Acquisitions()
    for number, entries in enumerate(readings):
        made.take_in(entries, number * every)
    return made


def test_where_nobody_writes_nothing_is_known() -> None:
    assert read().per_second() is None
    assert read([], [], []).per_second() is None
    assert read([], [], []).of("x") is None


def test_the_first_reading_tells_since_when_the_others_count() -> None:
    assert read(written(1, 2, 3)).per_second() is None
    assert read(written(1, 2, 3), written(1, 2, 3)).per_second() == Rate(0.0)


def test_an_entry_counts_once_however_often_it_is_read() -> None:
    found = read(written(1), written(1, 2, 3), written(2, 3, 4), written(4))
    assert found.per_second() == Rate(3 / 30)
    assert found.of("x") == Rate(3 / 30)
    assert found.of("y") == Rate(0.0)


def test_what_is_handed_over_is_acquired_and_what_is_released_is_not() -> None:
    more = written(2, kind="handed_over") + written(3, kind="released") + written(4, kind="lost")
    assert read(written(1), written(1) + more).per_second() == Rate(0.1)


def test_what_was_left_out_counts_for_all_and_may_be_of_any_lock() -> None:
    more = left_out(1, "200 granted, 30 handed_over, 230 released")
    found = read(written(1), written(1, 2) + more)
    assert found.per_second() == Rate(23.1)
    assert found.of("x") == Rate(0.1, at_least=True)


def test_what_may_have_been_pushed_out_makes_it_the_least_that_it_can_be() -> None:
    """None of the entries of the last reading is there any more."""
    found = read(written(1, 2), written(7, 8), written(7, 8, 9))
    assert found.per_second() == Rate(3 / 20, at_least=True)


def test_a_quiet_time_is_no_gap() -> None:
    assert read(written(1), [], written(2)).per_second() == Rate(1 / 20)


def test_a_rate_is_of_the_last_minute() -> None:
    busy = [written(*range(100 * number, 100 * number + 101)) for number in range(5)]
    quiet = [written(400)] * 10
    assert read(*busy).per_second() == Rate(10.0)
    assert read(*busy, *quiet).per_second() == Rate(0.0)
    assert len(read(*busy, *quiet, *quiet)._reads) <= 7


def test_where_it_is_read_seldom_it_is_of_the_time_between() -> None:
    assert read(written(1), written(1, 2, 3, 4), every=300.0).per_second() == Rate(0.01)


def test_several_places() -> None:
    assert together([]) is None
    assert together([None, None]) is None
    assert together([Rate(1.0), Rate(2.0)]) == Rate(3.0)
    assert together([Rate(1.0), None]) == Rate(1.0, at_least=True)
    assert together([Rate(1.0), Rate(2.0, at_least=True)]) == Rate(3.0, at_least=True)


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (Rate(212.4), "212"),
        (Rate(9.94), "9.9"),
        (Rate(0.123), "0.12"),
        (Rate(0.0), "0"),
        (Rate(31.0, at_least=True), "\u2265 31"),
    ],
)
def test_for_people(rate: Rate, shown: str) -> None:
    assert str(rate) == shown


@pytest.mark.usefixtures("patient_closing")
def test_an_observer_counts_what_programs_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 0.05)
    url = "memory:counted"
    with (
        locknut.connect(url) as looking,
        closing(PlaceObserver(looking)) as observer,
        locknut.connect(url, history=100) as locks,
    ):
        observer.look()
        observer.look()
        assert observer.acquisitions.per_second() is None
        for _ in range(5):
            held(locks, "report").release()
        until(lambda: len(looking.history()) >= 10, "it is written down")
        observer.look()
        reads = observer.acquisitions._reads
        assert sum(each.acquired["report"] for each in reads[1:]) == 5
        assert observer.acquisitions.per_second() == observer.acquisitions.of("report")
