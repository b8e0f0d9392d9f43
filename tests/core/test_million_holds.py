"""What the calculator says of renewals is what the keeper does, up to a million holds.

The real client, keeper and timetable run in virtual time (`tests/simulation/many_holders.py`), so
that no machine has to be as large as what is counted.
"""

from __future__ import annotations

import pytest

from locknut.capacity import Costs, Demand, estimate
from locknut.core.timetable import BATCH, EARLY
from tests.simulation.many_holders import keep

TTL = 300.0
ONLY_BATCHES = Costs._make([0] * len(Costs._fields))._replace(
    renews=True, served=True, batch_requests=1.0
)
"""An engine that gets one request for a batch, and none for anything else."""


def compare(processes: int, each: int) -> None:
    kept = keep(processes, each, TTL)
    locks = processes * each
    needs = estimate(Demand(locks, ttl=TTL, processes=processes), ONLY_BATCHES)

    assert kept.holds == locks
    renewals, batches = kept.renewals / kept.seconds, kept.batches / kept.seconds
    assert needs.renewals * 0.99 <= renewals <= needs.renewals / (1 - EARLY) * 1.01
    assert batches <= needs.requests / (1 - EARLY) * 1.01, "more batches than the model has"
    assert kept.batches >= kept.renewals / BATCH, "no batch is larger than it may be"


@pytest.mark.parametrize(
    ("processes", "each"), [(1, 1), (50, 1), (50, 7), (20, 500), (3, 4000), (1, 10_000)]
)
def test_the_model_of_renewals_is_what_the_keeper_does(processes: int, each: int) -> None:
    compare(processes, each)


@pytest.mark.slow
@pytest.mark.timeout(900)  # two minutes where nobody else is
@pytest.mark.parametrize(("processes", "each"), [(200, 5000), (1, 1_000_000)])
def test_it_is_so_with_a_million_holds(processes: int, each: int) -> None:
    compare(processes, each)
