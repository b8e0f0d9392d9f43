"""From a number of locks to what they need, and to when one server is not enough: pure arithmetic.

Renewals are the part that never ends: each lock is renewed three times per ttl, up to 500 of a
process in one batch. `tests/core/test_million_holds.py` compares this with what the keeper does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from locknut.capacity.costs import Costs
from locknut.core import pacing
from locknut.core.timetable import BATCH, EARLY
from locknut.errors import ConfigurationError

BUSY = 0.5
"""Which part of a core may be used: above it requests begin to wait for each other."""


class Demand(NamedTuple):
    """What is asked of an engine."""

    locks: int
    """Held at the same time, by all processes together."""
    ttl: float = 30.0
    processes: int = 1
    """That hold them, each its part."""
    waiters: int = 0
    """That wait at the same time, each for a name of its own."""
    rate: float = 0.0
    """Locks that are acquired and released in a second, besides."""
    new_names: float = 0.0
    """Of these, names in a second that were not used before."""
    cores: int = 2
    """Of the server."""


class Needs(NamedTuple):
    """What that comes to."""

    renewals: float
    """In a second."""
    requests: float
    """In a second, at all servers together."""
    server_cpu: float
    """Cores that the server needs."""
    client_cpu: float
    """Cores that each process needs."""
    stored: float
    """Bytes at the engine, with those of names that nobody uses any more."""
    left: float
    """Bytes of these names alone."""
    client_memory: float
    """Bytes more in each process."""
    connections: int
    servers: int
    """How many are needed."""
    most_locks: float
    """That one server can keep alive with this ttl and nothing else to do; inf for any number."""
    problems: list[str]
    """Why one server, or one process, is not enough; empty if it is."""


def estimate(demand: Demand, costs: Costs) -> Needs:
    """What this demand needs of an engine with these costs."""
    _check(demand)
    each = demand.locks / demand.processes
    rounds = demand.ttl / pacing.RENEWALS_PER_TTL if costs.renews else 1.0
    renewals = demand.locks / rounds
    batches = demand.processes * batches_of(each) / rounds if costs.renews else 0.0
    requests = (
        demand.processes * costs.process_requests * min(1.0, each)
        + renewals * costs.renewal_requests
        + batches * costs.batch_requests
        + demand.rate * costs.pair_requests
        + demand.waiters * costs.waiter_requests
    )
    server_cpu = renewals * costs.renewal_server_cpu + demand.rate * costs.pair_server_cpu
    client_cpu = renewals * costs.renewal_client_cpu + demand.rate * costs.pair_client_cpu
    left = demand.new_names * costs.left_for * costs.name_left
    connections = costs.connections + (costs.waiting_connections if demand.waiters else 0.0)
    usable = BUSY * (min(costs.cores, demand.cores) if costs.cores else demand.cores)
    found = Needs(
        renewals=renewals if costs.renews else 0.0,
        requests=requests if costs.served else 0.0,
        server_cpu=server_cpu,
        client_cpu=client_cpu / demand.processes,
        stored=demand.locks * costs.lock_stored + demand.waiters * costs.waiter_stored + left,
        left=left,
        client_memory=(demand.locks * costs.lock_memory + demand.waiters * costs.waiter_memory)
        / demand.processes,
        connections=math.ceil(connections * demand.processes),
        servers=max(1, math.ceil(round(server_cpu / usable, 6))) if costs.served else 0,
        most_locks=_most(costs, rounds, usable),
        problems=[],
    )
    return found._replace(problems=_problems(found, costs, usable))


def batches_of(locks: float) -> float:
    """How many batches one process sends for so many locks, each time that all are renewed.

    Those that are due within a tenth of the interval go together: so ten at the most, as long as
    they are not too many for that.
    """
    return max(min(locks, 1 / EARLY), locks / BATCH)


def _most(costs: Costs, rounds: float, usable: float) -> float:
    of_one = costs.renewal_server_cpu / rounds
    if costs.served:
        return math.floor(usable / of_one) if of_one else math.inf
    of_one = costs.renewal_client_cpu / rounds
    return math.floor(BUSY / of_one) if of_one else math.inf


def _problems(found: Needs, costs: Costs, usable: float) -> list[str]:
    problems = []
    longer = "take longer ttls, or " if costs.renews else ""
    if found.servers > 1:
        problems.append(
            f"the server needs {found.server_cpu:.2f} cores, and {usable:g} can be used: {longer}"
            "share the names out among several servers or a cluster"
        )
    if found.client_cpu > BUSY:
        problems.append(
            f"each process needs {found.client_cpu:.2f} cores, and Python uses one: {longer}"
            "have more processes"
        )
    if 0 < costs.most_connections < found.connections:
        problems.append(
            f"{found.connections:,} connections are more than the {costs.most_connections:,} that "
            "the server allows as it comes: raise its limit"
        )
    return problems


def _check(demand: Demand) -> None:
    least = Demand(locks=0, ttl=0, processes=1, cores=1)
    for name, value, limit in zip(Demand._fields, demand, least, strict=True):
        if not limit <= value < math.inf or (name == "ttl" and not value):
            raise ConfigurationError(f"{name} cannot be {value:g}")
