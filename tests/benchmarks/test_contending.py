"""Shares are counted while everybody is there: who comes late is not served less for it."""

from __future__ import annotations

from benchmarks import contending
from benchmarks.contending import BEGUN, COMING, LAST, START, Turns
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
