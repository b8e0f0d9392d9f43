"""How long a file lock is on its way from one process to another that sleeps waiting for it.

From just before `release()` in one process until `acquire()` has returned in the other, which had
been waiting for 2 milliseconds or more; then the two change roles. Somebody who polls is caught at
a random moment of his interval.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import measuring
from benchmarks.crews import Board, Lock, Member
from benchmarks.file_locks import ASYNCIO, BARE, BLOCKING, FAIR, FILE_LOCKS, PEERS, missing, present
from benchmarks.plan import Plan
from benchmarks.reporting import Table

EXCHANGES = 300
EXCHANGES_OF_POLLERS = 20
ASLEEP = 0.002
TIMES_BARE, TIMES_BARE_ASYNCIO, P99_US = 5.0, 7.0, 300.0
NAMES = (BARE, BLOCKING, FAIR, ASYNCIO, *PEERS, "filelock, asyncio")
STAMP, WAITS, DONE = 0, 1, 3
"""Places on the board: when the release began; who waits (two of them); how many have ended."""


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of the bare kernel lock's."""
    columns = ("", "p50 us", "best quarter", "p99 us", "times bare", "hand-overs")
    table = Table("file.handover: release() begins -> the waiter's acquire() returns", columns)
    names = present(*NAMES)
    table.notes += missing(*NAMES)
    with tempfile.TemporaryDirectory() as folder:
        slices = {name: partial(_exchange, name, Path(folder), plan) for name in names}
        found = measuring.interleaved(slices, plan.few(7), plan.seed)
    medians = {name: [measuring.median(each) for each in found[name]] for name in names}
    times = {name: measuring.ratio(medians[name], medians[BARE]) for name in names}
    p99 = {}
    for name in names:
        together = [each for slice_ in found[name] for each in slice_]
        p99[name] = measuring.quantile(together, 0.99)
        middle, best = measuring.median(medians[name]), measuring.best_quarter(medians[name])
        table.add(name, middle, best, p99[name], times[name], len(together))
    table.aim("blocking, times bare", times[BLOCKING], TIMES_BARE, at_least=False)
    table.aim("asyncio, times bare", times[ASYNCIO], TIMES_BARE_ASYNCIO, at_least=False)
    table.aim("blocking, p99 us", p99[BLOCKING], P99_US, at_least=False)
    return table


def _exchange(name: str, folder: Path, plan: Plan) -> list[float]:
    """Two processes, so many hand-overs; microseconds each."""
    interval = FILE_LOCKS[name].interval
    rounds = plan.count(EXCHANGES_OF_POLLERS if interval else EXCHANGES, 3)
    board = Board(4)
    crew = [Member(name, folder, partial(_player, board, me, rounds, interval)) for me in range(2)]
    return [each for member in crew for each in member.result()]


async def _player(board: Board, me: int, rounds: int, interval: float, lock: Lock) -> list[float]:
    """Wait for the lock, note how long it was on its way, wait for the other to wait, let go."""
    latencies: list[float] = []
    chance = random.Random(os.getpid())
    other = WAITS + 1 - me
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
