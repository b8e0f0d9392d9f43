# ruff: noqa: SLF001 -- it measures what is inside
"""Whether short holds leave anything behind: taken and released far faster than they are renewed.

A renewal that is due in ten seconds for a hold that lasts microseconds must cost nothing: none is
sent, the timetable is empty afterwards, and memory does not grow with the number of holds.
"""

from __future__ import annotations

import sys
import time

import locknut
from benchmarks import measuring
from benchmarks.engines import CountingEngine
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample, Slice

RATE = 15_000
TTL = 30.0
PAIRS = 45_000


def measure(plan: Plan) -> Table:
    """Renewals sent, and what the timetable holds afterwards."""
    table = Table(
        f"core.churn: taken and released with a ttl of {TTL:.0f} s, as fast as it goes",
        (
            "pairs",
            "pairs/s (CPU)",
            "renewals sent",
            "left in the timetable",
            "blocks of memory more",
        ),
    )
    pairs = plan.count(PAIRS, 500)
    with Contender(f"{__name__}:slices", {}) as contender:
        contender.run(plan.count(1000, 100))
        samples = [contender.run(pairs) for _ in range(plan.few(5))]
    middle = {key: measuring.median([each[key] for each in samples]) for key in samples[0]}
    renewals, left = samples[-1]["renewals"], middle["left"]
    table.add(pairs, middle["rate"], int(renewals), int(left), int(middle["blocks"]))
    table.aim("pairs per second of processor time", middle["rate"], RATE)
    table.aim("renewals sent", renewals, 0, at_least=False)
    table.aim("left in the timetable", left, 0, at_least=False)
    return table


def slices() -> Slice:
    """In a contender: so many pairs, each on a name of its own."""
    engine = CountingEngine()
    locks = locknut.Locks(engine)
    timetable = locks._client.schedule.timetable

    def churn(pairs: int) -> Sample:
        names = [locks.lock(f"job-{each % 100}", ttl=TTL) for each in range(pairs)]
        blocks = sys.getallocatedblocks()
        started = time.process_time()
        for lock in names:
            with lock:
                pass
        rate = pairs / (time.process_time() - started)
        left = len(timetable._heap) + sum(map(len, timetable._fifos.values()))
        more = sys.getallocatedblocks() - blocks
        return {"rate": rate, "renewals": engine.renewed, "left": left, "blocks": more}

    return churn
