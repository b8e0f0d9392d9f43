"""What an uncontended acquire and release on Redis costs, for one caller or many, a name for each.

1.00 is a bare socket in a Python loop that sends bytes packed beforehand. One caller: everybody,
and the server, on one core, which is the pure cost of both sides. Many: wherever the kernel likes.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks import measuring, pairing, placing
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.redis_locks import (
    ASYNCIO,
    BARE,
    BARE_ASYNCIO,
    BLOCKING,
    FIFO,
    KINDS,
    PYTHON_REDIS_LOCK,
    REDIS_ASYNCIO,
    REDIS_PY,
    REDIS_UVLOOP,
    UVLOOP,
)
from benchmarks.redis_serving import serving
from benchmarks.reporting import Table

BLOCKING_PEERS = (REDIS_PY, PYTHON_REDIS_LOCK, "redlock-ng", "pottery")
ASYNCIO_PEERS = (REDIS_ASYNCIO, "redlock-ng, asyncio", "pottery, asyncio", FIFO)


class Crowd(NamedTuple):
    """So many callers, and who is compared; the first is the limit."""

    title: str
    callers: int
    names: tuple[str, ...]
    seconds: float


ALONE = Crowd(
    "one caller",
    1,
    (BARE, BLOCKING, ASYNCIO, UVLOOP, *BLOCKING_PEERS, *ASYNCIO_PEERS, REDIS_UVLOOP, "portalocker"),
    0.15,
)
THREADS = Crowd("16 threads", 16, (BARE, BLOCKING, *BLOCKING_PEERS), 0.3)
TASKS = Crowd("100 tasks", 100, (BARE_ASYNCIO, ASYNCIO, UVLOOP, *ASYNCIO_PEERS, REDIS_UVLOOP), 0.3)
OF_BARE = {BLOCKING: 0.70, ASYNCIO: 0.40, UVLOOP: 0.55}
TIMES_REDIS_PY, TIMES_REDIS_ASYNCIO = 2.0, 10.0


def measure(plan: Plan) -> Table:
    """The speed of each as a part of the bare limit's in the same run."""
    table = Table(
        "redis.pairs: uncontended acquire and release, a name for each caller",
        (
            "",
            "callers",
            "us per pair",
            "best quarter",
            "of bare",
            "of bare, best quarters",
            "us of client CPU",
            "pairs/s",
        ),
    )
    found = {crowd: _race(crowd, table, plan) for crowd in (ALONE, THREADS, TASKS)}
    alone = pairing.of_limit(found[ALONE], BARE)
    for name, wanted in OF_BARE.items():
        if name in alone:
            table.aim(f"{name}, one caller, of the bare socket", alone[name], wanted)
    table.aim_beside(found[THREADS], BLOCKING, REDIS_PY, TIMES_REDIS_PY)
    table.aim_beside(found[TASKS], ASYNCIO, REDIS_ASYNCIO, TIMES_REDIS_ASYNCIO)
    return table


def _race(crowd: Crowd, table: Table, plan: Plan) -> dict[str, list[float]]:
    """Microseconds per pair of everybody in every round."""
    field = Field(KINDS, crowd.names)
    core = placing.one_core() if crowd.callers == 1 else None
    with serving(table) as server:
        placing.keep_on(core, server.pid)
        found = pairing.race(
            field,
            "redis",
            server.url,
            plan=plan,
            seconds=crowd.seconds,
            finer=3 if crowd.callers == 1 else 1,
            callers=crowd.callers,
            core=core,
        )
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    of_bare = pairing.of_limit(wall, crowd.names[0])
    for name in field:
        middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
        of_best = measuring.best_quarter(wall[crowd.names[0]]) / best
        used = measuring.median(cpu[name])
        table.add(name, crowd.title, middle, best, of_bare[name], of_best, used, 1e6 / middle)
    table.tell(field)
    table.charts.append(
        Chart(
            crowd.title.replace(" ", "-"),
            f"Uncontended acquire and release on Redis, {crowd.title}",
            f"speed as a part of the {crowd.names[0]}'s (longer is better)",
            of_bare,
            {name: wanted for name, wanted in OF_BARE.items() if crowd is ALONE and name in field},
        )
    )
    return wall
