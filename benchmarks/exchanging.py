"""How long a lock is on its way from one process to another that sleeps waiting for it.

From just before `release()` in one process until `acquire()` has returned in the other, which had
been waiting for 2 milliseconds or more; then the two change roles. Somebody who polls is caught at
a random moment of his interval.

The first exchanges of a slice do not count: its processes were forked just before, and copy each
page of memory when they first write to it, which a bare lock hardly does.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from benchmarks import measuring
from benchmarks.charts import Chart
from benchmarks.crews import Board, Lock, Member
from benchmarks.kinds import Field, Kind
from benchmarks.plan import Plan
from benchmarks.reporting import Table

EXCHANGES = 300
EXCHANGES_OF_POLLERS = 10
WARM_UP = 10
"""Rounds of each process before it counts; pollers' latencies are too long for that to matter."""
ASLEEP = 0.002
COLUMNS = ("", "p50 us", "best quarter", "times bare", "p99 us", "times bare's p99", "hand-overs")
STAMP, DONE, WAITS, READY = 0, 1, 2, 4
"""Places on the board: when the release began; whether one has ended; who waits and who is ready,
two of them each.
"""


class Latency(NamedTuple):
    """Microseconds, and multiples of the limit's."""

    p50: float
    p99: float
    times_bare: float


def race(table: Table, field: Field, place: str, limit: str, plan: Plan) -> dict[str, Latency]:
    """A row for everybody, and what it says."""
    found = field.race(lambda name: exchange(field[name], place, plan), plan.few(8), plan.seed)
    medians = {name: [measuring.median(each) for each in found[name]] for name in field}
    every = {name: [each for slice_ in found[name] for each in slice_] for name in field}
    p99 = {name: measuring.quantile(every[name], 0.99) for name in field}
    result = {}
    for name in field:
        times = measuring.ratio(medians[name], medians[limit])
        middle, best = measuring.median(medians[name]), measuring.best_quarter(medians[name])
        tail = p99[name] / p99[limit]
        table.add(name, middle, best, times, p99[name], tail, len(every[name]))
        result[name] = Latency(middle, p99[name], times)
    table.tell(field)
    return result


def latency_chart(
    title: str, limit: str, found: Mapping[str, Latency], targets: Mapping[str, float]
) -> Chart:
    return Chart(
        "latency",
        title,
        f"median of release() to acquire(), times the {limit}'s (further left is better)",
        {name: each.times_bare for name, each in found.items()},
        targets,
        log=True,
    )


def exchange(kind: Kind, place: str, plan: Plan) -> list[float]:
    """Two processes, so many hand-overs; microseconds each."""
    rounds = plan.count(EXCHANGES_OF_POLLERS if kind.interval else EXCHANGES, 3)
    warm_up = 0 if kind.interval else plan.count(WARM_UP, 1)
    board = Board(6)
    plays = [partial(_play, board, me, warm_up + rounds, kind.interval) for me in range(2)]
    crew = [Member(kind, place, play) for play in plays]
    try:
        return [each for member in crew for each in member.result()[warm_up:]]
    finally:
        for member in crew:
            member.stop()


async def _play(board: Board, me: int, rounds: int, interval: float, lock: Lock) -> list[float]:
    """Wait for the lock, note how long it was on its way, wait for the other to wait, let go."""
    latencies: list[float] = []
    chance = random.Random(os.getpid())
    other = WAITS + 1 - me
    await lock.acquire()
    await lock.release()  # connected by now
    board[READY + me] = 1
    while not board[READY + 1 - me]:
        await lock.pause(0.001)
    for _ in range(rounds):
        board[WAITS + me] = 1
        await lock.acquire()
        now = time.monotonic_ns()
        if board[STAMP]:
            latencies.append((now - board[STAMP]) / 1000)
        board[WAITS + me] = 0
        while not board[other] and not board[DONE]:
            await lock.pause(0.0005)
        await lock.pause(ASLEEP + chance.random() * max(interval, ASLEEP))
        board[STAMP] = time.monotonic_ns() if board[other] else 0
        await lock.release()
        while board[other] and not board[DONE]:
            await lock.pause(0.001)  # until the other has it, or we would take it back
    board[DONE] = 1
    return latencies
