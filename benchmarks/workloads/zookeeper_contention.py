"""Everybody wants one lock on ZooKeeper, all the time: 8 processes, 64 threads, or 64 tasks.

There is no bare limit here: 1.00 is kazoo in the same shape (its threads, beside tasks).
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks import measuring
from benchmarks.charts import Chart
from benchmarks.contending import Shape, contend
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.zookeeper_locks import ASYNCIO, BLOCKING, KAZOO, KINDS
from tests.servers.zookeeper import ZooKeeperServer

SECONDS = 2.0
COLUMNS = (
    "",
    "callers",
    "owner changes/s",
    "times kazoo",
    "share spread",
    "mean wait ms",
    "longest ms",
)


class Crowd(NamedTuple):
    """So many callers, who is compared, in which shape each, and how many times kazoo is wanted."""

    title: str
    size: int
    shapes: dict[str, Shape]
    wanted: float


CROWDS = (
    Crowd("processes", 8, dict.fromkeys((KAZOO, BLOCKING, ASYNCIO), "processes"), 2.0),
    Crowd("in one process", 64, {KAZOO: "threads", BLOCKING: "threads", ASYNCIO: "tasks"}, 10.0),
)


def measure(plan: Plan) -> Table:
    """Owner changes, shares and waits."""
    table = Table("zookeeper.contention: all want one lock, all the time", COLUMNS)
    with ZooKeeperServer(waits_for_disk=True) as server:
        for crowd in CROWDS:
            _race(crowd, server.url, table, plan)
    return table


def _race(crowd: Crowd, url: str, table: Table, plan: Plan) -> None:
    size = crowd.size if plan.complete else 3
    field = Field(KINDS, tuple(crowd.shapes))
    seconds = plan.seconds(SECONDS)
    found = field.race(
        lambda name: contend(field[name], url, crowd.shapes[name], size, seconds),
        plan.few(5),
        plan.seed,
    )
    per_change = {n: [1 / max(1.0, each.changes) for each in s] for n, s in found.items()}
    times = {name: _times(per_change, name) for name in field}
    for name in field:
        slices = found[name]
        table.add(
            name,
            f"{size} {crowd.title}",
            measuring.median([each.changes for each in slices]),
            times[name],
            f"{measuring.median([measuring.spread(each.shares) for each in slices]):.0%}",
            measuring.median([each.mean * 1000 for each in slices]),
            max(each.longest * 1000 for each in slices),
        )
    table.tell(field)
    for name in (BLOCKING, ASYNCIO):
        where = f"{crowd.size} {crowd.title}: "
        table.aim_beside(per_change, name, KAZOO, crowd.wanted, where)
    table.charts.append(
        Chart(
            crowd.title.replace(" ", "-"),
            f"One lock on ZooKeeper, wanted by {crowd.size} {crowd.title} all the time",
            "changes of the owner, as a multiple of kazoo's (longer is better)",
            times,
            {BLOCKING: crowd.wanted},
        )
    )


def _times(per_change: dict[str, list[float]], name: str) -> float:
    beside = per_change.get(KAZOO, per_change[name])
    return measuring.ratio(beside, per_change[name])
