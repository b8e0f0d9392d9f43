"""Everybody wants one lock on Redis, all the time: 8 processes, 8 threads, or 64 tasks.

1.00 is the bare grant in the same shape: a server-side line and an inbox per waiter, without any
hand-over inside the process. "Commands" are what clients send; "calls" is all that the server then
does, the commands inside scripts included. "Most served before" is how many others were served, at
most, between a question and its grant: in a line that is its length, however long the wait was.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks import measuring
from benchmarks.charts import Chart
from benchmarks.contending import Shape, Slice, contend
from benchmarks.kinds import Field, Kind
from benchmarks.plan import Plan
from benchmarks.redis_locks import (
    ASYNCIO,
    BARE_ASYNCIO_GRANT,
    BARE_GRANT,
    BLOCKING,
    FIFO,
    KINDS,
    PYTHON_REDIS_LOCK,
    REDIS_ASYNCIO,
    REDIS_PY,
    UVLOOP,
)
from benchmarks.redis_serving import calls, forget_calls, serving
from benchmarks.reporting import Table
from tests.servers.redis import RedisServer

SECONDS = 1.0
BLOCKING_PEERS = (PYTHON_REDIS_LOCK, REDIS_PY, "redlock-ng", "pottery")
ASYNCIO_PEERS = (FIFO, REDIS_ASYNCIO, "redlock-ng, asyncio", "pottery, asyncio")
COLUMNS = (
    "",
    "callers",
    "owner changes/s",
    "of bare",
    "grants/s",
    "share spread",
    "mean wait ms",
    "longest ms",
    "most served before",
    "commands per change",
    "calls per change",
)
OF_BARE, TIMES_PROCESSES, LONGEST, COMMANDS = 0.6, 3.0, 3.0, 3.0
TIMES_THREADS, TIMES_TASKS = 8.0, 100.0


class Crowd(NamedTuple):
    """So many callers in one shape, and who is compared; the first is the limit."""

    shape: Shape
    size: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.size} {self.shape}"


PROCESSES = Crowd(
    "processes",
    8,
    (BARE_GRANT, BLOCKING, ASYNCIO, *BLOCKING_PEERS, FIFO, REDIS_ASYNCIO, "portalocker"),
)
THREADS = Crowd("threads", 8, (BARE_GRANT, BLOCKING, *BLOCKING_PEERS))
TASKS = Crowd("tasks", 64, (BARE_ASYNCIO_GRANT, ASYNCIO, UVLOOP, *ASYNCIO_PEERS))


class Turn(NamedTuple):
    """One slice, and what the server did in it per change of the owner."""

    slice: Slice
    commands: float
    calls: float


Found = dict[str, list[Turn]]


def measure(plan: Plan) -> Table:
    """Owner changes, shares, waits, and what they cost the server."""
    table = Table("redis.contention: all want one lock, all the time", COLUMNS)
    found = {crowd: _race(crowd, table, plan) for crowd in (PROCESSES, THREADS, TASKS)}
    apart = found[PROCESSES]
    ours = apart[BLOCKING]
    longest = measuring.median([each.slice.longest_of_mean for each in ours])
    commands = measuring.median([each.commands for each in ours])
    seconds = {crowd: _seconds(each) for crowd, each in found.items()}
    of_bare = measuring.ratio(seconds[PROCESSES][BARE_GRANT], seconds[PROCESSES][BLOCKING])
    table.aim(f"{PROCESSES}: {BLOCKING}, of the bare grant", of_bare, OF_BARE)
    table.aim(f"{PROCESSES}: {BLOCKING}, longest wait by mean", longest, LONGEST, at_least=False)
    table.aim(f"{PROCESSES}: {BLOCKING}, commands", commands, COMMANDS, at_least=False)
    for crowd, one, other, wanted in (
        (PROCESSES, BLOCKING, PYTHON_REDIS_LOCK, TIMES_PROCESSES),
        (THREADS, BLOCKING, PYTHON_REDIS_LOCK, TIMES_THREADS),
        (TASKS, ASYNCIO, REDIS_ASYNCIO, TIMES_TASKS),
    ):
        table.aim_beside(seconds[crowd], one, other, wanted, f"{crowd}: ")
    return table


def _seconds(found: Found) -> dict[str, list[float]]:
    """Per change of the owner."""
    return {name: [1 / max(1.0, t.slice.changes) for t in each] for name, each in found.items()}


def _race(crowd: Crowd, table: Table, plan: Plan) -> Found:
    crowd = crowd if plan.complete else crowd._replace(size=3)
    field = Field(KINDS, crowd.names)
    with serving(table) as server:
        found = field.race(
            lambda name: _turn(server, field[name], crowd, plan), plan.few(5), plan.seed
        )
    seconds = _seconds(found)
    of_bare = {name: measuring.ratio(seconds[crowd.names[0]], seconds[name]) for name in field}
    for name in field:
        slices = [each.slice for each in found[name]]
        table.add(
            name,
            str(crowd),
            measuring.median([each.changes for each in slices]),
            of_bare[name],
            measuring.median([each.grants for each in slices]),
            f"{measuring.median([measuring.spread(each.shares) for each in slices]):.0%}",
            measuring.median([each.mean * 1000 for each in slices]),
            max(each.longest * 1000 for each in slices),
            max(each.before for each in slices),
            measuring.median([each.commands for each in found[name]]),
            measuring.median([each.calls for each in found[name]]),
        )
    table.tell(field)
    table.charts.append(
        Chart(
            f"{crowd.shape}",
            f"One lock on Redis, wanted by {crowd} all the time",
            f"changes of the owner, as a multiple of the {crowd.names[0]}'s (longer is better)",
            of_bare,
            {BLOCKING: OF_BARE} if crowd.shape == "processes" else {},
        )
    )
    return found


def _turn(server: RedisServer, kind: Kind, crowd: Crowd, plan: Plan) -> Turn:
    seconds = plan.seconds(SECONDS)
    slice_ = contend(
        kind,
        server.url,
        crowd.shape,
        crowd.size,
        seconds,
        began=lambda: forget_calls(server),
    )
    done = calls(server)
    sent = sum(count for command, count in done.items() if command in kind.sends)
    handed = max(1, slice_.handed)
    return Turn(slice_, sent / handed, sum(done.values()) / handed)
