"""The production recipe of session mode on simulated sessions: nothing breaks, and each bug that
locks of a session are known for is found.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends.simulated_engine import SimulatedEngine, check, gaps
from tests.simulation.network import CALM
from tests.simulation.simulator import Setting
from tests.simulation.sizes import BOUT, DUEL
from tests.simulation.sql.session.bugs import BUGS
from tests.simulation.sql.session.engine import EVERYTHING, MIXED, SESSION
from tests.simulation.sql.session.faults import SessionFaults

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("alone")]

MIXED_DUELS = 100
MINUTES = 20
A_MINUTE = replace(BOUT, disturbed=75.0, busy=76.0, rounds=60, rest=1.0)
"""Long enough for a keeper that stands still for a minute."""


class TestSessions(SimulatedEngine):
    engine = "sql-session"
    variant = SESSION
    everything = EVERYTHING
    bugs = BUGS
    found_by_seed_0 = "session-lock-believed"
    duels = 200
    not_here = SimulatedEngine.not_here | {"ring_lost"}
    """Nobody is rung: the server answers whoever waits."""
    also_met = frozenset({"lost: taken"})


def test_beside_clients_in_lease_mode_nothing_breaks() -> None:
    for seed in range(MIXED_DUELS):
        check(seed, Setting(MIXED, size=DUEL))


def test_a_reader_that_asks_anew_has_its_own_lock() -> None:
    """When it came, its first session was not dead yet, and had that lock."""
    check(187, Setting(SESSION))


@pytest.mark.slow
def test_long_runs_beside_clients_in_lease_mode_break_nothing() -> None:
    for seed in range(30):
        check(seed, Setting(MIXED))


@pytest.mark.slow
def test_a_keeper_that_stands_still_for_a_minute() -> None:
    faults = SessionFaults(heartbeats_stop=0.1, sessions_killed=0.1, slow=0.1, drift=0.004)
    for seed in range(MINUTES):
        outcome = check(seed, Setting(SESSION, faults, ("mutex",), size=A_MINUTE))
        assert outcome.faults["heartbeats_stop"]


def test_the_next_one_enters_soon() -> None:
    """The server hands its lock over: nobody has to look again."""
    assert max(gaps(Setting(SESSION, faults=CALM, only=("mutex",)))) < 0.1
