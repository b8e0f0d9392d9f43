"""What an uncontended acquire and release on ZooKeeper costs, on one server and on an ensemble.

1.00 is a bare socket in a Python loop that sends bytes packed beforehand, two messages for an
acquire and one for a release, and waits for each of the two once. On the ensemble all are clients
of one and the same server: a write takes longer by a follower than by the leader, and drivers
choose theirs by chance.
"""

from __future__ import annotations

from benchmarks import measuring, pairing
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.zookeeper_locks import ASYNCIO, BARE, BLOCKING, KAZOO, KINDS
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

NAMES = (BARE, BLOCKING, ASYNCIO, KAZOO)
SECONDS = 0.4
TIMES_KAZOO = 1.5


def measure(plan: Plan) -> Table:
    """The speed of each as a part of the bare limit's in the same run."""
    table = Table(
        "zookeeper.pairs: uncontended acquire and release",
        ("", "servers", "us per pair", "best quarter", "of bare", "us of client CPU", "pairs/s"),
    )
    with ZooKeeperServer(waits_for_disk=True) as server:
        _race("one", server.url, table, plan)
    with ZooKeeperEnsemble(waits_for_disk=True) as ensemble:
        _race("three, by the leader", ensemble.leader.url, table, plan)
        _race("three, by a follower", ensemble.followers[0].url, table, plan)
    return table


def _race(servers: str, url: str, table: Table, plan: Plan) -> None:
    field = Field(KINDS, NAMES)
    found = pairing.race(field, "zookeeper", url, plan=plan, seconds=SECONDS)
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    of_bare = pairing.of_limit(wall, BARE)
    for name in field:
        middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
        used = measuring.median(cpu[name])
        table.add(name, servers, middle, best, of_bare[name], used, 1e6 / middle)
    table.tell(field)
    for name in (BLOCKING, ASYNCIO):
        table.aim_beside(wall, name, KAZOO, TIMES_KAZOO, f"{servers}: ")
    table.charts.append(
        Chart(
            f"{servers.replace(',', '').replace(' ', '-')}",
            f"Uncontended acquire and release on ZooKeeper, servers: {servers}",
            f"speed as a part of the {BARE}'s (longer is better)",
            of_bare,
        )
    )
