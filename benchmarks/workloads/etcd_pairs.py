"""What an uncontended acquire and release on etcd costs, on one member and on three.

1.00 is two bare transactions by our own driver. On three members all are clients of one and the
same one: a write takes longer by a follower than by the leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import measuring, pairing, placing
from benchmarks.charts import Chart
from benchmarks.etcd_locks import ASYNCIO, BARE, BLOCKING, ETCD3, ETCD3GW, KINDS, TOOZ
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from tests.servers.etcd import EtcdCluster, EtcdServer

NAMES = (BARE, BLOCKING, ASYNCIO, ETCD3, ETCD3GW, TOOZ)
SECONDS = 0.4
TIMES = {ETCD3: 2.0, ETCD3GW: 5.0, TOOZ: 5.0}


def measure(plan: Plan) -> Table:
    """The speed of each as a part of the bare limit's in the same run."""
    table = Table(
        "etcd.pairs: uncontended acquire and release",
        ("", "members", "us per pair", "best quarter", "of bare", "us of client CPU", "pairs/s"),
    )
    with EtcdServer(waits_for_disk=True) as server:
        _race("one", [server], server, table, plan)
    with EtcdCluster(waits_for_disk=True, proxied=False) as cluster:
        _race("three, by the leader", cluster.servers, cluster.leader, table, plan)
        _race("three, by a follower", cluster.servers, cluster.followers[0], table, plan)
    return table


def _race(
    members: str, servers: Sequence[EtcdServer], asked: EtcdServer, table: Table, plan: Plan
) -> None:
    field, core = Field(KINDS, NAMES), placing.one_core()
    placing.keep_on(core, *(server.pid for server in servers))
    found = pairing.race(field, "etcd", asked.url, plan=plan, seconds=SECONDS, core=core)
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    of_bare = pairing.of_limit(wall, BARE)
    for name in field:
        middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
        used = measuring.median(cpu[name])
        table.add(name, members, middle, best, of_bare[name], used, 1e6 / middle)
    table.tell(field)
    for peer, times in TIMES.items():
        table.aim_beside(wall, BLOCKING, peer, times, f"{members}: ")
    table.charts.append(
        Chart(
            f"{members.replace(',', '').replace(' ', '-')}",
            f"Uncontended acquire and release on etcd, members: {members}",
            f"speed as a part of the {BARE}' (longer is better)",
            of_bare,
        )
    )
