"""Many processes on one file lock, each taking it again as soon as it has let it go.

Beside the bare kernel lock, which has no order: whoever runs takes it.
"""

from __future__ import annotations

import tempfile
from functools import partial

from benchmarks import measuring
from benchmarks.charts import Chart
from benchmarks.contending import Slice, contend, until_handed_over
from benchmarks.file_locks import ASYNCIO_FAIR, BARE, BLOCKING, FAIR, KINDS, PEERS
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table

SECONDS = 2.0
FEW, SOME, MANY = 2, 8, 30
OF_BARE, CROWD_SHARE, JAIN, SLEEPS = 2.0, 0.8, 0.99, 1.1
SPREAD = 0.02
COLUMNS = (
    "",
    "processes",
    "owner changes/s",
    "of bare",
    "grants/s",
    "Jain",
    "share spread",
    "longest wait ms",
    "most served before",
    "sleeps per grant",
    "CPU us per grant",
)


def measure(plan: Plan) -> Table:
    """Hand-overs, fairness and the longest wait for each size of crew."""
    table = Table("file.contention: processes that all want one lock, all the time", COLUMNS)
    rates: dict[tuple[str, int], list[float]] = {}
    some, many = (SOME, MANY) if plan.complete else (3, 4)
    for size in (FEW, some, many):
        names = (BARE, FAIR, BLOCKING, ASYNCIO_FAIR, *(PEERS if size == some else ()))
        field = Field(KINDS, names)
        found = _race(field, size, plan)
        for name in field:
            rates[name, size] = [each.changes for each in found[name]]
        of_bare = {name: measuring.ratio(rates[name, size], rates[BARE, size]) for name in field}
        for name in field:
            _add(table, name, size, found[name], of_bare[name])
        if size == some:
            _aim(table, size, found[FAIR], of_bare[FAIR])
        table.tell(field)
        table.charts.append(_chart(size, of_bare, {FAIR: OF_BARE} if size == some else {}))
    share = measuring.median(rates[FAIR, many]) / measuring.median(rates[FAIR, some])
    table.aim(f"{many} processes, fair: of the rate of {some}", share, CROWD_SHARE)
    return table


def _chart(size: int, of_bare: dict[str, float], targets: dict[str, float]) -> Chart:
    return Chart(
        f"{size}-processes",
        f"One file lock, wanted by {size} processes all the time",
        f"changes of the owner, as a multiple of the {BARE}'s (longer is better)",
        of_bare,
        targets,
    )


def _race(field: Field, size: int, plan: Plan) -> dict[str, list[Slice]]:
    seconds = plan.seconds(SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        return field.race(
            lambda name: until_handed_over(
                partial(contend, field[name], folder, "processes", size), seconds
            ),
            plan.few(7),
            plan.seed,
        )


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
        max(each.before for each in found),
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
