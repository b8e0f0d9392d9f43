"""How often an observer looks: never so often that looking is a load."""

from __future__ import annotations

from locknut.observer.refresh_rate import FEW, JUDGED, LONGEST, SOON, VERY_MANY, RefreshRate

MANY = 10_000


def rate(*costs: tuple[float, float], times: int = 1, engine: str = "") -> RefreshRate:
    made = RefreshRate(2.0, engine)
    for took, own in costs * times:
        made.cost(took, own, MANY)
    return made


def test_a_cheap_listing_is_made_as_often_as_asked() -> None:
    assert rate((0.003, 0.001), times=4).pause() == 2.0


def test_the_engine_works_for_us_one_hundredth_of_the_time_at_most() -> None:
    assert round(rate((0.25, 0.2), times=4).pause(), 6) == 5.0


def test_our_own_work_counts_as_well() -> None:
    assert rate((0.8, 0.8), times=4).pause() == 8.0


def test_listings_that_were_held_up_change_nothing() -> None:
    cheap, held_up = (0.01, 0.005), (5.0, 0.005)
    assert rate(cheap, *[held_up] * (JUDGED - 1)).pause() == 2.0


def test_a_few_that_were_dear_do() -> None:
    dear = (0.4, 0.1)
    assert round(rate((0.01, 0.005), *[dear] * JUDGED).pause(), 6) == 30.0


def test_the_first_had_to_connect_and_is_no_measure() -> None:
    assert rate((0.5, 0.1)).pause() == 2.0


def test_nobody_connects_for_so_long_so_it_were_the_locks() -> None:
    """A second listing after two seconds would double what the first minutes cost."""
    assert round(rate((1.1, 0.1)).pause(), 6) == 100.0
    fewer = RefreshRate(2.0)
    fewer.cost(5.0, 0.1, VERY_MANY - 1)
    assert fewer.pause() == 2.0, "the machine may be busy"


def test_two_processors_at_work_for_us_are_two_that_have_to_rest() -> None:
    """Nodes that are asked together, and threads that pass requests on, work while we wait once."""
    for engine in ("redlock", "zookeeper"):
        assert round(rate((0.4, 0.1), times=2, engine=engine).pause(), 6) == 60.0
        assert rate((0.8, 0.8), times=4, engine=engine).pause() == 8.0
        few = RefreshRate(2.0, engine)
        for _ in range(20):
            few.cost(0.04, 0.01, FEW)
        assert round(few.pause(), 6) == 3.0, "most of that is the network"
    assert round(rate((0.4, 0.1), times=2, engine="redis").pause(), 6) == 30.0


def test_two_that_were_dear_are_believed() -> None:
    """Four of 10,000 locks would come to 10 % of a core in the first seconds."""
    assert round(rate((0.4, 0.1), times=2).pause(), 6) == 30.0
    assert rate((5.0, 0.1), (0.01, 0.005)).pause() == 2.0


def test_there_is_a_longest_pause() -> None:
    assert rate((500.0, 1.0), times=4).pause() == LONGEST


def test_what_is_in_doubt_is_looked_at_again_soon() -> None:
    assert rate((0.003, 0.001), times=4).next_pause(in_doubt=True) == SOON
    assert rate((0.4, 0.1), times=4).next_pause(in_doubt=True) == SOON


def test_over_two_pauses_that_costs_nothing() -> None:
    dear = rate((0.4, 0.1), times=4)
    pauses = [dear.next_pause(in_doubt=doubt) for doubt in (False, True, False, False)]
    assert [round(each, 6) for each in pauses] == [30.0, SOON, 60.0 - SOON, 30.0]


def test_nor_does_it_make_a_pause_longer_than_the_longest() -> None:
    made = rate((500.0, 1.0), times=4)
    assert [made.next_pause(in_doubt=True) for _ in range(3)] == [SOON, LONGEST, SOON]


def test_doubts_without_end_do_not_hammer() -> None:
    made = rate((0.003, 0.001), times=4)
    pauses = [made.next_pause(in_doubt=True) for _ in range(100)]
    assert pauses[:4] == [SOON, 4.0 - SOON, SOON, 4.0 - SOON]
    assert sum(pauses) == 100 * 2.0


def test_whoever_looks_more_often_is_not_held_up_by_a_doubt() -> None:
    assert RefreshRate(0.1).next_pause(in_doubt=True) == 0.1


def test_a_few_locks_on_a_busy_machine_are_not_left_alone_for_long() -> None:
    """The first listings came while thirty programs were started."""
    made = RefreshRate(2.0)
    pauses = []
    for took in (0.3, 0.4, 0.5, 0.3, 0.02):
        made.cost(took, 0.005, FEW)
        pauses.append(made.next_pause())
    assert pauses == [2.0, 3.0, 4.5, 6.75, 2.0]


def test_a_few_that_are_dear_are_believed_in_the_end() -> None:
    """A server with millions of other keys, say."""
    made = RefreshRate(2.0)
    for _ in range(12):
        made.cost(1.1, 0.1, 3)
    assert made.pause() == 100.0
    made.cost(1.1, 0.1, 3)
    assert made.pause() == 100.0
