"""The checker and detached holds: gone before their time, though nobody else can have them."""

from __future__ import annotations

from tests.simulation.checker import Assumptions, check
from tests.simulation.checker.history import ATTACHED, Event, Kind

K = Kind
JUDGED = Assumptions(detached_again_within=1.0)
DETACHED = [
    Event(1.0, "p", K.CALLED, "n", "p1"),
    Event(1.1, "p", K.ACQUIRED, "n", "p1", fence=32, until=9.0),
    Event(2.0, "p", K.DETACHED, "n", "p1", until=8.0),
]


def attach(who: str, called: float, told: float, kind: Kind, note: str = "") -> list[Event]:
    return [
        Event(called, who, K.CALLED, "n", f"{who}1", by="p1", note=ATTACHED),
        Event(told, who, kind, "n", f"{who}1", fence=32, until=told + 3, note=note),
    ]


def gone(who: str, called: float) -> list[Event]:
    return attach(who, called, called + 0.1, K.FAILED, "LeaseLost")


def broken(history: list[Event], given: Assumptions = JUDGED) -> bool:
    found = check([*DETACHED, *history], given)
    assert {violation.rule for violation in found} <= {"d"}
    return bool(found)


def test_it_is_gone_before_its_time() -> None:
    assert broken(gone("q", 5.0))
    assert broken(gone("q", 5.0), Assumptions())
    assert broken([*gone("q", 5.0), *gone("r", 4.0)]), "who was told the same has it neither"


def test_its_time_is_over() -> None:
    assert not broken(gone("q", 8.0))


def test_another_one_has_it_or_may_have() -> None:
    assert not broken([*attach("r", 3.0, 3.1, K.ACQUIRED), *gone("q", 5.0)])
    assert not broken([*attach("r", 3.0, 3.1, K.ACQUIRED)[:1], *gone("q", 5.0)])
    assert broken([*gone("q", 5.0), *attach("r", 6.0, 6.1, K.ACQUIRED)]), "that was later"


def test_who_asked_again_may_have_had_it() -> None:
    slow = attach("r", 3.0, 4.0, K.FAILED, "LeaseLost")
    assert not broken(slow)
    assert not broken([*slow, *gone("q", 5.0)], Assumptions())


def test_who_gives_up_puts_it_back() -> None:
    for given_up in (
        attach("r", 3.0, 3.1, K.CANCELLED),
        attach("r", 3.0, 3.1, K.FAILED, "BackendUnavailable"),
    ):
        assert broken([*given_up, *gone("q", 5.0)])
        assert not broken([*given_up, *gone("q", 4.0)]), "that takes a while"
        assert not broken([*given_up, *gone("q", 5.0)], Assumptions()), "not every engine does"
        asleep = Event(3.05, "r", K.PAUSED)
        assert not broken([*given_up, asleep, *gone("q", 5.0)])


def test_what_ends_holds_ends_it() -> None:
    assert not broken([Event(4.0, "engine", K.BROKEN, "n"), *gone("q", 5.0)])
