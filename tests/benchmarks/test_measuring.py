from __future__ import annotations

from functools import partial

import pytest

from benchmarks import measuring
from benchmarks.numbers import shown
from benchmarks.reporting import Target


def test_every_contender_gets_one_slice_per_round_and_the_order_changes() -> None:
    order: list[str] = []
    contenders = {name: partial(order.append, name) for name in "abcdef"}

    found = measuring.interleaved(contenders, rounds=4, seed=1)

    rounds = [order[start : start + 6] for start in range(0, 24, 6)]
    assert all(sorted(each) == list("abcdef") for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert all(len(slices) == 4 for slices in found.values())


def test_a_ratio_is_taken_inside_each_round_so_a_slow_spell_cancels_out() -> None:
    quiet_then_noisy = [10.0, 10.0, 50.0]
    twice_as_fast = [5.0, 5.0, 25.0]

    assert measuring.ratio(quiet_then_noisy, twice_as_fast) == 2.0


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.99, 4.96), (1.0, 5.0)]
)
def test_quantiles(share: float, expected: float) -> None:
    assert measuring.quantile([5.0, 3.0, 1.0, 4.0, 2.0], share) == pytest.approx(expected)


def test_fairness() -> None:
    assert measuring.jain([7, 7, 7, 7]) == 1.0
    assert measuring.jain([8, 0, 0, 0]) == 0.25
    assert measuring.spread([9, 10, 11]) == pytest.approx(0.2)


def test_a_target_says_whether_it_was_met_and_which_way_it_points() -> None:
    assert str(Target("ratio", 8.4, 8.0)) == "pass  ratio: 8.4 (target >= 8)"
    assert str(Target("us", 16.0, 15.0, at_least=False)) == "MISS  us: 16.0 (target <= 15.0)"


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "-"), (12345.6, "12,346"), (123.4, "123"), (12.34, "12.3"), (0.0123, "0.0123")],
)
def test_numbers_have_as_many_digits_as_mean_something(cell: float | None, text: str) -> None:
    assert shown(cell) == text
