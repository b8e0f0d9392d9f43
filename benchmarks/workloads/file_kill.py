"""How soon the next process holds the lock when its holder is killed: no ttl is waited out.

From just before SIGKILL is sent until the waiter's `acquire()` has returned. Most of it is the
kernel taking the dead process apart, so the bare lock is the measure. The waiter has used its lock
before: it was forked just now, and copies each page of memory when it first writes to it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from functools import partial

from benchmarks import measuring
from benchmarks.crews import Board, Lock, Member, wait_for
from benchmarks.file_locks import ASYNCIO, BARE, BLOCKING, FAIR, KINDS, PEERS
from benchmarks.kinds import Field, Kind
from benchmarks.plan import Plan
from benchmarks.reporting import Table

KILLS = 10
TIMES_BARE, TIMES_BARE_ASYNCIO = 1.5, 2.5
READY, HELD, WAITS = 0, 1, 2


def measure(plan: Plan) -> Table:
    """Milliseconds, and multiples of the bare lock's."""
    table = Table(
        "file.kill: SIGKILL of the holder -> the next one holds",
        ("", "p50 ms", "best quarter", "worst ms", "times bare", "kills"),
    )
    field = Field(KINDS, (BARE, BLOCKING, FAIR, ASYNCIO, *PEERS))
    kills = range(plan.count(KILLS, 2))
    with tempfile.TemporaryDirectory() as folder:
        found = field.race(
            lambda name: [_kill(field[name], folder) for _ in kills], plan.few(10), plan.seed
        )
    medians = {name: [measuring.median(each) for each in found[name]] for name in field}
    times = {name: measuring.ratio(medians[name], medians[BARE]) for name in field}
    for name in field:
        every = [each for slice_ in found[name] for each in slice_]
        middle, best = measuring.median(medians[name]), measuring.best_quarter(medians[name])
        table.add(name, middle, best, max(every), times[name], len(every))
    table.tell(field)
    table.aim("blocking, times bare", times[BLOCKING], TIMES_BARE, at_least=False)
    table.aim("asyncio, times bare", times[ASYNCIO], TIMES_BARE_ASYNCIO, at_least=False)
    return table


def _kill(kind: Kind, folder: str) -> float:
    """One holder killed while one waits; milliseconds."""
    board = Board(3)
    crew = [waiter := Member(kind, folder, partial(_wait, board))]
    try:
        wait_for(lambda: board[READY] == 1, crew)
        crew.append(holder := Member(kind, folder, partial(_hold, board)))
        wait_for(lambda: board[WAITS] == 1, crew)
        time.sleep(0.02)  # asleep by now
        killed = time.monotonic_ns()
        os.kill(holder.pid, signal.SIGKILL)
        got: int = waiter.result()
    finally:
        for member in crew:
            member.stop()
    return (got - killed) / 1e6


async def _hold(board: Board, lock: Lock) -> None:
    await lock.acquire()
    board[HELD] = 1
    await lock.pause(3600)


async def _wait(board: Board, lock: Lock) -> int:
    await lock.acquire()
    await lock.release()
    board[READY] = 1
    while not board[HELD]:
        await lock.pause(0.001)
    board[WAITS] = 1
    await lock.acquire()
    got = time.monotonic_ns()
    await lock.release()
    return got
