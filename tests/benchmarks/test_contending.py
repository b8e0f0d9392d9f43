"""Shares are counted while everybody is there: who comes late is not served less for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import contending
from benchmarks.contending import BEGUN, COMING, LAST, START, Slice, Turns, until_handed_over
from benchmarks.crews import Board, Lock, finished
from benchmarks.kinds import Pair

ALONE = 5
SECONDS = 0.01


def test_what_one_gets_before_the_last_one_has_come_does_not_count() -> None:
    board = Board(COMING + 4)
    board[START], board[LAST] = 1, -1
    begun_at: list[int] = []

    def acquire() -> None:
        begun_at.append(board[BEGUN])
        if len(begun_at) == 1 + ALONE:  # the first one of all is to get connected
            contending._come(board, 1)

    lock = Lock(Pair(acquire, lambda: None), awaited=False)
    turns: Turns = finished(contending._want(board, 0, SECONDS, lock))

    assert begun_at[: 1 + ALONE] == [0] * (1 + ALONE)
    counted = len(begun_at) - ALONE  # from the one on during which the other came
    assert counted - 1 <= turns.grants <= counted  # the last one may come too late
    assert turns.handed == 1


def _slices_of(*changes: float) -> tuple[list[float], Callable[[float], Slice]]:
    lengths: list[float] = []

    def take(seconds: float) -> Slice:
        lengths.append(seconds)
        return Slice(changes[len(lengths) - 1], 1.0, [1, 0], 0.0, 0.0, 0.0, 0.0, 0, 0)

    return lengths, take


def test_a_slice_that_one_kept_for_itself_is_measured_again_and_longer() -> None:
    lengths, take = _slices_of(0.0, 0.0, 3.0, 9.0)
    assert until_handed_over(take, 1.0).changes == 3.0
    assert lengths == [1.0, 2.0, 4.0]


def test_a_lock_that_never_changes_hands_is_no_number() -> None:
    _, take = _slices_of(*[0.0] * contending.DOUBLINGS)
    with pytest.raises(AssertionError, match="kept the lock for 128 s"):
        until_handed_over(take, 1.0)
