"""The small curves beside hot locks: bounded, and empty where nobody waited."""

from __future__ import annotations

from locknut import Holder, LockInfo
from locknut.observer.line_lengths import LISTINGS, LineLengths


def listing(**lines: int) -> list[LockInfo]:
    return [LockInfo(name, (), (Holder(),) * length) for name, length in lines.items()]


def test_a_point_for_each_listing_since_somebody_waited() -> None:
    lines = LineLengths()
    for found in (listing(a=0), listing(a=2, b=1), listing(a=3), listing()):
        lines.take_in(found)
    assert lines.of("a") == (0, 2, 3, 0)
    assert lines.of("b") == (0, 1, 0, 0)
    assert lines.of("c") == ()


def test_a_line_that_is_long_over_is_forgotten() -> None:
    lines = LineLengths()
    lines.take_in(listing(a=1))
    for _ in range(LISTINGS - 1):
        lines.take_in(listing())
    assert len(lines.of("a")) == LISTINGS
    lines.take_in(listing())
    assert lines.of("a") == ()


def test_of_too_many_the_longest_are_kept() -> None:
    lines = LineLengths(most=2)
    lines.take_in(listing(a=1, b=3, c=2))
    assert [lines.of(name) for name in "abc"] == [(), (0, 3), (0, 2)]
