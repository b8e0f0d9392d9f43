"""What it costs the machine that a hundred processes wait for a file lock that does not come free.

The processor time of all waiters together, as a share of one core, from half a second after the
last one began to wait; read from the scheduler's own counts in nanoseconds.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import measuring
from benchmarks.crews import Board, Lock, Member, wait_for
from benchmarks.file_locks import BARE, BLOCKING, FAIR, KINDS
from benchmarks.kinds import Field, Kind
from benchmarks.plan import Plan
from benchmarks.reporting import Table

WAITERS = 100
SECONDS = 5.0
SETTLE = 0.5
SHARE = 0.01
PEERS = ("fasteners", "filelock")


def measure(plan: Plan) -> Table:
    """The share of one core that waiting takes."""
    waiters = WAITERS if plan.complete else 3
    table = Table(
        f"file.waiters: {waiters} processes waiting", ("", "CPU share of a core", "waiters")
    )
    field = Field(KINDS, (BARE, BLOCKING, FAIR, *PEERS))
    seconds = plan.seconds(SECONDS, 0.2)
    with tempfile.TemporaryDirectory() as folder:
        found = field.race(
            lambda name: _idle(field[name], folder, waiters, seconds), plan.few(3), plan.seed
        )
    for name in field:
        share = measuring.median(found[name])
        table.add(name, f"{share:.3%}", waiters)
        if name in {BLOCKING, FAIR}:
            table.aim(f"{name}: share of a core", share, SHARE, at_least=False)
    table.tell(field)
    return table


def _idle(kind: Kind, folder: str, waiters: int, seconds: float) -> float:
    board = Board(waiters + 1)
    holder = Member(kind, folder, partial(_hold, board))
    wait_for(lambda: board[waiters] == 1)
    crew = [Member(kind, folder, partial(_wait, board, me)) for me in range(waiters)]
    try:
        wait_for(lambda: all(board[me] for me in range(waiters)))
        time.sleep(SETTLE)
        before, started = sum(_ran(each.pid) for each in crew), time.monotonic()
        time.sleep(seconds)
        after, ended = sum(_ran(each.pid) for each in crew), time.monotonic()
    finally:
        for member in [*crew, holder]:
            member.stop()
    return (after - before) / 1e9 / (ended - started)


def _ran(pid: int) -> int:
    """Nanoseconds this process has run."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


async def _hold(board: Board, lock: Lock) -> None:
    await lock.acquire()
    board[len(board) - 1] = 1
    await lock.pause(3600)


async def _wait(board: Board, me: int, lock: Lock) -> None:
    board[me] = 1
    await lock.acquire()
