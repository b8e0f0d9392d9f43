"""What an observer puts on its first page, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence

from locknut import Detail, Holder, LockInfo
from locknut.observer import attention
from locknut.observer.changes import OpenHold
from locknut.observer.sightings import Concern, Ending, Picture, Span, Weight
from locknut.observer.span_history import SpanHistory

NOW = 10_000.0


def span(name: str, lasted: float, ending: Ending = Ending.OPEN) -> Span:
    until = None if ending is Ending.OPEN else NOW - 1.0
    end = NOW if until is None else until
    return Span(name, Holder("web-1", 7, raw=3), end - lasted, until, ending)


def found(
    *,
    picture: Picture = Picture(),  # noqa: B008  # a tuple
    holds: Sequence[OpenHold] = (),
    waits: Sequence[Span] = (),
    past: Sequence[Span] = (),
    endings: Sequence[Span] = (),
    more: Sequence[Concern] = (),
) -> list[Concern]:
    history = SpanHistory()
    for each in past:
        history.add_hold(each)
    evidence = attention.Evidence(picture, holds, waits, history, endings)
    return attention.concerns(evidence, NOW, more)


USUAL = [span(f"report:{at}", 2.0, Ending.RELEASED) for at in range(10)]


def test_nothing_is_found_in_a_quiet_place() -> None:
    assert not found(holds=[OpenHold(span("report:1", 9.0), NOW)], past=USUAL)


def test_a_hold_far_longer_than_usual_is_found() -> None:
    (one,) = found(holds=[OpenHold(span("report:99", 60.0), NOW)], past=USUAL)
    assert (one.kind, one.name) == ("long hold", "report:99")
    assert "web-1:7" in one.detail
    assert "2s" in one.detail


def test_what_is_usual_elsewhere_is_no_measure() -> None:
    assert not found(holds=[OpenHold(span("backup", 60.0), NOW)], past=USUAL)


def test_four_holds_are_not_enough_to_know_what_is_usual() -> None:
    assert not found(holds=[OpenHold(span("report:99", 60.0), NOW)], past=USUAL[:4])


def test_a_hold_that_ended_badly_is_no_measure_either() -> None:
    """Otherwise a lock that is always lost after a minute would make a minute usual."""
    bad = [span("report:1", 60.0, Ending.EXPIRED)] * 10
    assert found(holds=[OpenHold(span("report:99", 60.0), NOW)], past=[*bad, *USUAL])


def test_what_no_listing_shows_is_no_long_hold_and_no_long_wait() -> None:
    """An engine that is silent for ten minutes, or looked at every five, makes nothing last."""
    picture = Picture(at=NOW - 595.0, problem="no answer", unreachable_since=NOW - 590.0)
    hold, wait = OpenHold(span("report:99", 600.0), NOW - 595.0), span("x", 600.0)
    shown = found(picture=picture, holds=[hold], waits=[wait], past=USUAL)
    assert [each.kind for each in shown] == ["unreachable"]
    assert not found(picture=Picture(at=NOW - 595.0), holds=[hold], waits=[wait], past=USUAL)


def test_a_line_is_found_once_by_its_longest_wait() -> None:
    waits = [span("x", 45.0), span("x", 90.0), span("y", 3.0)]
    (one,) = found(waits=waits)
    assert (one.kind, one.name, one.since) == ("long wait", "x", NOW - 90.0)


def test_a_hold_that_nobody_renews_is_found_before_it_runs_out() -> None:
    hold = OpenHold(span("x", 9.0)._replace(holder=Holder("web-1", 7, ttl_left=10.0)), NOW)
    assert not found(holds=[hold])
    hold.see(Holder("web-1", 7, ttl_left=4.0), NOW)
    (one,) = found(holds=[hold])
    assert (one.kind, one.title) == ("expiring", "is not renewed and runs out in 4s")


def test_losses_stay_for_a_day() -> None:
    lost = span("x", 9.0, Ending.EXPIRED)
    old = lost._replace(until=NOW - 25 * 3600.0)
    broken = span("y", 9.0, Ending.BROKEN)
    assert [each.kind for each in found(endings=[lost, old, broken])] == ["expired", "broken"]


def test_an_engine_that_does_not_answer_comes_first() -> None:
    picture = Picture(problem="connection refused", unreachable_since=NOW - 5.0)
    first, _ = found(picture=picture, waits=[span("x", 90.0)])
    assert (first.kind, first.detail) == ("unreachable", "connection refused")


def test_a_server_that_takes_no_part_is_found_once() -> None:
    detail = Detail("h2:6379", problem="does not vote yet")
    locks = tuple(LockInfo(name, details=(detail,)) for name in "ab")
    (one,) = found(picture=Picture(locks=locks))
    assert (one.kind, one.detail) == ("server", "does not vote yet")


def test_what_others_found_is_shown_by_its_weight() -> None:
    deadlock = Concern(Weight.TROUBLE, "deadlock", "deadlock of 2", since=NOW)
    assert found(more=[deadlock], waits=[span("x", 90.0)])[0] is deadlock


def test_the_losses_of_a_day_hide_nothing_that_goes_on() -> None:
    """A deadlock has no beginning: who waits was there before anybody looked."""
    deadlock = Concern(Weight.TROUBLE, "deadlock", "deadlock of 2")
    picture = Picture(problem="connection refused", unreachable_since=NOW - 500.0)
    losses = [span(f"x{at}", 9.0, Ending.EXPIRED) for at in range(2 * attention.MOST)]
    shown = found(picture=picture, endings=losses, more=[deadlock])
    assert [each.kind for each in shown[:3]] == ["deadlock", "unreachable", "expired"]
    assert len(shown) == attention.MOST


def test_of_too_many_waits_the_longest_are_shown() -> None:
    waits = [span(f"x{at}", 60.0 + at) for at in range(2 * attention.MOST)]
    shown = [each.name for each in found(waits=waits)]
    assert shown == [f"x{at}" for at in reversed(range(attention.MOST, 2 * attention.MOST))]


def test_of_too_many_losses_the_latest_are_shown() -> None:
    losses = [span("x", 9.0, Ending.LOST)._replace(until=NOW - at) for at in range(100)]
    assert [each.since for each in found(endings=losses)] == [
        NOW - at for at in range(attention.MOST)
    ]


def test_of_the_doctor_only_what_is_unsafe_is_shown() -> None:
    said = {
        "redis-eviction": Weight.TROUBLE,
        "redlock-votes": Weight.WARNING,
        "redis-persistence": Weight.WARNING,
        "clock": Weight.NOTE,
        "usable": Weight.TROUBLE,
        "round-trip": Weight.TROUBLE,
    }
    checkup = [Concern(weight, code, "found") for code, weight in said.items()]
    shown = [each.kind for each in attention.of_the_engine(checkup)]
    assert shown == ["redis-eviction", "redlock-votes"]


def test_the_list_is_bounded() -> None:
    waits = [span(f"x{at}", 90.0) for at in range(500)]
    assert len(found(waits=waits)) == attention.MOST
