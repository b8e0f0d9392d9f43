"""How much an observer remembers, and what it forgets first."""

from __future__ import annotations

import pytest

from locknut import Holder
from locknut.observer.quantiles import Bar, histogram, quantile
from locknut.observer.sightings import Ending, Span
from locknut.observer.span_history import PER_NAME, SpanHistory


def over(name: str, until: float, lasted: float = 1.0, ending: Ending = Ending.RELEASED) -> Span:
    return Span(name, Holder(), until - lasted, until, ending)


def test_one_name_keeps_its_latest() -> None:
    history = SpanHistory()
    for at in range(PER_NAME + 20):
        history.add_hold(over("x", float(at)))
    assert len(history) == len(history.of("x").holds) == PER_NAME
    assert history.of("x").holds[0].until == 20.0


def test_all_names_together_are_bounded_and_the_oldest_is_forgotten() -> None:
    history = SpanHistory(most=100)
    for at in range(1000):
        history.add_hold(over(f"name-{at}", float(at)))
        history.add_wait(over(f"name-{at}", float(at)))
    assert len(history) <= 100
    assert not history.of("name-0").holds
    assert history.of("name-999").waits


def test_a_name_that_is_used_again_is_kept() -> None:
    history = SpanHistory(most=2 * PER_NAME)
    for at in range(3 * PER_NAME):
        history.add_hold(over("often", float(at)))
        history.add_hold(over(f"once-{at}", float(at)))
    assert history.of("often").holds


def test_only_granted_waits_of_the_window_count() -> None:
    history = SpanHistory()
    history.add_wait(over("x", 10.0, 5.0, Ending.GRANTED))
    history.add_wait(over("x", 90.0, 2.0, Ending.GRANTED))
    history.add_wait(over("x", 95.0, 60.0, Ending.LEFT))
    assert history.waited(50.0) == [2.0]


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([4.0], 0.95, 4.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        ([float(each) for each in range(1, 101)], 0.95, 95.0),
        ([2.0, 1.0], 1.0, 2.0),
        ([2.0, 1.0], 0.0, 1.0),
    ],
)
def test_quantiles(values: list[float], share: float, expected: float | None) -> None:
    assert quantile(values, share) == expected


def test_a_histogram_has_no_empty_ends() -> None:
    bars = histogram([0.002, 0.05, 0.05])
    assert bars == [
        Bar(0.001, 0.003, 1),
        Bar(0.003, 0.01, 0),
        Bar(0.01, 0.03, 0),
        Bar(0.03, 0.1, 2),
    ]
    assert histogram([]) == []
    assert histogram([1e6])[0].high == float("inf")
