"""Many processes on one file lock, each taking it again as soon as it has let it go.

Counted are changes of the owner: a lock that its releaser takes back while everybody else sleeps
makes many grants and serves nobody. Every holder also checks that it is alone.
"""

from __future__ import annotations

import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import measuring
from benchmarks.crews import Board, Lock, Member, wait_for
from benchmarks.file_locks import ASYNCIO_FAIR, BARE, BLOCKING, FAIR, PEERS, missing, present
from benchmarks.plan import Plan
from benchmarks.reporting import Table

SECONDS = 1.0
FEW, SOME, MANY = 2, 8, 30
OF_BARE, CROWD_SHARE, JAIN, SLEEPS = 2.0, 0.8, 0.99, 1.1
SPREAD = 0.02
WARM_UP = 0.2
"""Of a slice, before it begins to count."""
READY, START, LAST, INSIDE, BROKEN = range(5)
COLUMNS = (
    "",
    "processes",
    "owner changes/s",
    "of bare",
    "grants/s",
    "Jain",
    "share spread",
    "longest wait ms",
    "sleeps per grant",
    "CPU us per grant",
)


class Turns(NamedTuple):
    """What one process got in one slice."""

    grants: int
    changes: int
    longest: float
    sleeps: int
    cpu: float


class Slice(NamedTuple):
    """What one crew got in one slice."""

    changes: float
    grants: float
    shares: list[int]
    longest: float
    sleeps: float
    cpu: float


def measure(plan: Plan) -> Table:
    """Hand-overs, fairness and the longest wait for each size of crew."""
    table = Table("file.contention: processes that all want one lock, all the time", COLUMNS)
    table.notes += missing(*PEERS)
    rates: dict[tuple[str, int], list[float]] = {}
    some, many = (SOME, MANY) if plan.complete else (3, 4)
    for size in (FEW, some, many):
        names = present(BARE, FAIR, BLOCKING, ASYNCIO_FAIR, *(PEERS if size == some else ()))
        with tempfile.TemporaryDirectory() as folder:
            seconds = plan.seconds(SECONDS)
            slices = {name: partial(contend, name, Path(folder), size, seconds) for name in names}
            found = measuring.interleaved(slices, plan.few(7), plan.seed)
        for name in names:
            rates[name, size] = [each.changes for each in found[name]]
        for name in names:
            of_bare = measuring.ratio(rates[name, size], rates[BARE, size])
            _add(table, name, size, found[name], of_bare)
            if name == FAIR and size == some:
                _aim(table, size, found[name], of_bare)
    share = measuring.median(rates[FAIR, many]) / measuring.median(rates[FAIR, some])
    table.aim(f"{many} processes, fair: of the rate of {some}", share, CROWD_SHARE)
    return table


def _add(table: Table, name: str, size: int, found: list[Slice], of_bare: float) -> None:
    jain = measuring.median([measuring.jain(each.shares) for each in found])
    spread = measuring.median([measuring.spread(each.shares) for each in found])
    table.add(
        name,
        size,
        measuring.median([each.changes for each in found]),
        of_bare,
        measuring.median([each.grants for each in found]),
        f"{jain:.3f}",
        f"{spread:.1%}",
        max(each.longest for each in found) * 1000,
        measuring.median([each.sleeps for each in found]),
        measuring.median([each.cpu * 1e6 for each in found]),
    )


def _aim(table: Table, size: int, found: list[Slice], of_bare: float) -> None:
    who = f"{size} processes, fair"
    jain = measuring.median([measuring.jain(each.shares) for each in found])
    spread = measuring.median([measuring.spread(each.shares) for each in found])
    sleeps = measuring.median([each.sleeps for each in found])
    table.aim(f"{who}: owner changes, times bare", of_bare, OF_BARE)
    table.aim(f"{who}: Jain's index", jain, JAIN)
    table.aim(f"{who}: shares apart", spread, SPREAD, at_least=False)
    table.aim(f"{who}: sleeps per grant", sleeps, SLEEPS, at_least=False)


def contend(name: str, folder: Path, size: int, seconds: float) -> Slice:
    """One crew for so many seconds."""
    board = Board(5)
    board[LAST] = -1
    crew = [Member(name, folder, partial(_want, board, me, seconds)) for me in range(size)]
    wait_for(lambda: board[READY] == _everybody(size))
    board[START] = time.monotonic_ns() + 20_000_000
    turns: list[Turns] = [member.result() for member in crew]
    if board[BROKEN]:
        raise AssertionError(f"{name}: two processes were inside at once")
    grants = sum(each.grants for each in turns)
    return Slice(
        sum(each.changes for each in turns) / seconds,
        grants / seconds,
        [each.grants for each in turns],
        max(each.longest for each in turns),
        sum(each.sleeps for each in turns) / max(1, grants),
        sum(each.cpu for each in turns) / max(1, grants),
    )


def _everybody(size: int) -> int:
    return size * (size + 1) // 2


async def _want(board: Board, me: int, seconds: float, lock: Lock) -> Turns:
    """Take it, look who had it last, let go, again. Counted is from when all have been at it for a
    while: who began a millisecond later than the others did not get less.
    """
    await lock.acquire()
    board[READY] += me + 1  # under the lock, so none of these is lost
    await lock.release()
    while not board[START]:
        await lock.pause(0.001)
    start = board[START]
    await lock.pause(max(0.0, (start - time.monotonic_ns()) / 1e9))
    counted = start + int(seconds * 1e9 * WARM_UP)
    while time.monotonic_ns() < counted:
        await lock.acquire()
        await lock.release()
    grants = changes = longest = 0
    sleeps, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw, time.process_time()
    now, until = time.monotonic_ns(), counted + int(seconds * 1e9)
    while now < until:
        await lock.acquire()
        asked, now = now, time.monotonic_ns()
        longest = max(longest, now - asked)
        if board[INSIDE]:
            board[BROKEN] = 1
        board[INSIDE] = me + 1
        if board[LAST] != me:
            board[LAST] = me
            changes += 1
        grants += 1
        if board[INSIDE] != me + 1:
            board[BROKEN] = 1
        board[INSIDE] = 0
        await lock.release()
    sleeps = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - sleeps
    return Turns(grants, changes, longest / 1e9, sleeps, time.process_time() - cpu)
