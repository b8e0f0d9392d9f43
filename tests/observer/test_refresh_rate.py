"""How often an observer looks: never so often that looking is a load."""

from __future__ import annotations

from locknut.observer.refresh_rate import LONGEST, RefreshRate


def rate(*costs: tuple[float, float], times: int = 1) -> RefreshRate:
    made = RefreshRate(2.0)
    for took, own in costs * times:
        made.cost(took, own)
    return made


def test_a_cheap_listing_is_made_as_often_as_asked() -> None:
    assert rate((0.003, 0.001), times=4).pause() == 2.0


def test_the_engine_works_for_us_one_hundredth_of_the_time_at_most() -> None:
    assert round(rate((0.25, 0.2), times=4).pause(), 6) == 5.0


def test_our_own_work_counts_as_well() -> None:
    assert rate((0.8, 0.8), times=4).pause() == 8.0


def test_listings_that_were_held_up_change_nothing() -> None:
    cheap, held_up = (0.01, 0.005), (5.0, 0.005)
    assert rate(cheap, held_up, held_up, held_up).pause() == 2.0


def test_a_few_that_were_dear_do() -> None:
    dear = (0.4, 0.1)
    assert round(rate((0.01, 0.005), *[dear] * 4).pause(), 6) == 30.0


def test_the_first_had_to_connect_and_is_no_measure() -> None:
    assert rate((5.0, 0.1)).pause() == 2.0


def test_two_that_were_dear_are_believed() -> None:
    """Four of 10,000 locks would come to 10 % of a core in the first seconds."""
    assert round(rate((0.4, 0.1), times=2).pause(), 6) == 30.0
    assert rate((5.0, 0.1), (0.01, 0.005)).pause() == 2.0


def test_there_is_a_longest_pause() -> None:
    assert rate((500.0, 1.0), times=4).pause() == LONGEST
