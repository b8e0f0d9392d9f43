"""Session mode beside the bare lock of the same database, which writes nothing.

A hold of ours has a number, which is committed before it is granted, and a row that says when it
was given back. So it is measured beside the bare lock alone, and beside the bare lock with as many
commits; on a server that waits for its disk with each commit, and on one that does not. Lease mode
and the peers, which take the bare lock and write nothing, stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks import measuring, pairing, placing
from benchmarks.kinds import Field, Kind
from benchmarks.plan import Plan
from benchmarks.postgresql_locks import ASYNCIO_BY_SESSION, BLOCKING, BY_SESSION, TOOZ
from benchmarks.reporting import Table
from tests.servers.sql import SqlServer

COLUMNS = (
    "",
    "server",
    "commits",
    "us per pair",
    "best quarter",
    "of the bare lock",
    "of it with commits",
    "us of client CPU",
)
SECONDS = 0.4
WANTED = 0.8
FASTER = 1.0


def race(
    table: Table,
    server: Callable[..., SqlServer],
    kinds: Mapping[str, Kind],
    bare: tuple[str, str],
    peers: Sequence[str],
    plan: Plan,
) -> None:
    """Add what each takes there. `bare`: the lock alone, and with commits."""
    for waits in (True, False):
        with server(waits_for_disk=waits) as running, running.database() as database:
            field = Field(kinds, (*bare, BY_SESSION, ASYNCIO_BY_SESSION, BLOCKING, *peers))
            engine = "postgresql" if running.scheme == "postgresql" else "mysql"
            core = placing.one_core()
            placing.keep_on(core, running.pid)
            found = pairing.race(field, engine, database.url, plan=plan, seconds=SECONDS, core=core)
        wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
        alone, committed = (pairing.of_limit(wall, each) for each in bare)
        commits = "on the disk" if waits else "not waited for"
        for name in field:
            middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
            used = measuring.median(cpu[name])
            ratios = alone[name], committed[name]
            table.add(name, running.scheme, commits, middle, best, *ratios, used)
        table.tell(field)
        what = f"{running.scheme}, commits {commits}: {BY_SESSION}, of {bare[1]}"
        table.aim(what, committed[BY_SESSION], WANTED)
        where = f"{running.scheme}, commits {commits}: "
        for ours in (BY_SESSION, BLOCKING):
            table.aim_beside(wall, ours, TOOZ, FASTER, where)
