"""The production recipe, backend and waiting on a simulated database: nothing breaks, and each bug
that lock tables are known for is found.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends.simulated_engine import SimulatedEngine, check, gaps
from tests.simulation.network import CALM
from tests.simulation.simulator import Setting
from tests.simulation.sizes import DUEL
from tests.simulation.sql.backend import SimPaced, SimSql
from tests.simulation.sql.bugs import BUGS
from tests.simulation.sql.engine import EVERYTHING, SQL

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("alone")]


class TestLeases(SimulatedEngine):
    engine = "sql"
    variant = SQL
    everything = EVERYTHING
    bugs = BUGS
    found_by_seed_0 = "sql-affected-rows-believed"
    also_met = frozenset({"lost: taken"})


@pytest.mark.parametrize("seed", [2989, 4228, 4412])
def test_what_was_found_once_is_looked_at_again(seed: int) -> None:
    """2989: a shared hold, released after its end, came back when the clock was set back.
    4228, 4412: of two renewals that waited for the row, the earlier came last and cut the hold.
    """
    check(seed, Setting(SQL, size=DUEL))


@pytest.mark.parametrize(("kind", "soon"), [(SimSql, 0.05), (SimPaced, 1.1)])
def test_the_next_one_enters_soon(kind: type[SimSql], soon: float) -> None:
    setting = Setting(replace(SQL, backend=kind), faults=CALM, only=("fair",))
    assert max(gaps(setting)) < soon
