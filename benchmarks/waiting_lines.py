"""How long a lock is on its way to the next of several processes that sleep waiting for it.

From just before `release()` in one process until `acquire()` has returned in another, while so many
wait, each of them for 2 milliseconds or more. Then the one that let go waits again, behind them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks import measuring
from benchmarks.crews import Board, Lock, Member
from benchmarks.kinds import Field, Kind
from benchmarks.plan import Plan
from benchmarks.reporting import Table

WAITING = 8
EXCHANGES = 200
"""Hand-overs of a slice."""
ASLEEP = 0.002
WARM_UP = 2 * WAITING
"""Hand-overs before it counts: by then every holder has waited."""
COLUMNS = ("", "server", "waiting", "p50 us", "best quarter", "p99 us", "statements", "hand-overs")
"""`statements`: what one hand-over costs the server, the join of the one that let go included."""
STAMP, PASSED, BEGAN, ENDED, READY = range(5)
"""Places on the board; from the last one on, who is ready, and behind that who waits."""


class Passed(NamedTuple):
    """Microseconds of each hand-over, and the statements of all of them."""

    latencies: list[float]
    statements: int


def race(
    table: Table,
    field: Field,
    place: str,
    plan: Plan,
    server: str,
    statements: Callable[[], int] | None = None,
) -> dict[str, float]:
    """A row for everybody, and the medians. `statements`: how many the server has had so far."""
    found = field.race(
        lambda name: line_up(field[name], place, plan, statements), plan.few(6), plan.seed
    )
    result = {}
    for name in field:
        medians = [measuring.median(each.latencies) for each in found[name]]
        every = [one for each in found[name] for one in each.latencies]
        each_costs = sum(each.statements for each in found[name]) / len(every)
        middle, best = measuring.median(medians), measuring.best_quarter(medians)
        p99 = measuring.quantile(every, 0.99)
        costs = each_costs if statements is not None else "not counted"
        table.add(name, server, WAITING, middle, best, p99, costs, len(every))
        result[name] = middle
    table.tell(field)
    return result


def line_up(
    kind: Kind, place: str, plan: Plan, statements: Callable[[], int] | None = None
) -> Passed:
    """One crew, until there were enough hand-overs."""
    size, rounds = WAITING + 1, plan.count(EXCHANGES, 2)
    board = Board(READY + 2 * size)
    crew = [Member(kind, place, partial(_play, board, me, size, rounds)) for me in range(size)]
    try:
        began = _counted_when(board, BEGAN, crew, statements)
        ended = _counted_when(board, ENDED, crew, statements)
        latencies = [each for member in crew for each in member.result()]
    finally:
        for member in crew:
            member.stop()
    return Passed(latencies, ended - began)


def _counted_when(
    board: Board, place: int, crew: list[Member], statements: Callable[[], int] | None
) -> int:
    """The holder waits until this was counted."""
    while board[place] == 0 and not any(member.over for member in crew):
        time.sleep(0.001)
    found = statements() if statements is not None else 0
    board[place] = 2
    return found


async def _play(board: Board, me: int, size: int, rounds: int, lock: Lock) -> list[float]:
    """Wait for the lock, note how long it was on its way, wait until all others wait, let go."""
    latencies: list[float] = []
    waits = [READY + size + each for each in range(size) if each != me]
    await lock.acquire()
    await lock.release()  # connected by now
    board[READY + me] = 1
    while not all(board[READY + each] for each in range(size)):
        await lock.pause(0.001)
    while True:
        board[READY + size + me] = 1
        await lock.acquire()
        now, began, board[STAMP] = time.monotonic_ns(), board[STAMP], 0
        board[READY + size + me] = 0
        if board[ENDED]:
            await lock.release()
            return latencies
        if began and board[BEGAN]:
            latencies.append((now - began) / 1000)
        while not all(board[each] for each in waits):
            await lock.pause(0.0005)
        await lock.pause(ASLEEP)
        await _let_count(board, rounds, lock)
        board[STAMP] = time.monotonic_ns()
        await lock.release()
        while board[STAMP]:
            await lock.pause(0.0005)  # until another one has it, or we would take it back


async def _let_count(board: Board, rounds: int, lock: Lock) -> None:
    """Before the first and after the last that counts, the parent looks at the server."""
    for place, at in ((BEGAN, WARM_UP), (ENDED, WARM_UP + rounds)):
        if board[PASSED] == at:
            board[place] = 1
            while board[place] == 1:
                await lock.pause(0.001)
    board[PASSED] += 1
