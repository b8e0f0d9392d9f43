"""The production recipe, backend and waiting on a simulated cluster: nothing breaks, and each bug
that locks on etcd are known for is found.
"""

from __future__ import annotations

import pytest

from tests.backends.simulated_engine import SimulatedEngine, gaps
from tests.simulation.checker.history import Kind
from tests.simulation.etcd.bugs import BUGS
from tests.simulation.etcd.engine import ETCD, EVERYTHING
from tests.simulation.network import CALM
from tests.simulation.simulator import Setting

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("alone")]


class TestCluster(SimulatedEngine):
    engine = "etcd"
    variant = ETCD
    everything = EVERYTHING
    bugs = BUGS
    found_by_seed_0 = "etcd-wrong-predecessor"
    duels, bouts, swarms = 100, 30, 20
    sound_seeds, finding = 4, 100
    not_here = SimulatedEngine.not_here | {"clock_set_back"}
    """Nobody looks at the time of day."""
    also_met = frozenset({"deposed_leader_asked", "lost: session"})


@pytest.mark.parametrize("place", ["fair", "permits"])
def test_the_next_one_enters_soon(place: str) -> None:
    assert max(gaps(Setting(ETCD, faults=CALM, only=(place,)), Kind.ACQUIRED)) < 0.1
