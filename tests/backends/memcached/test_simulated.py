"""The production recipe and backend on a simulated memcached: nothing breaks, and each bug that
locks in a cache are known for is found.
"""

from __future__ import annotations

import os
import socket
from collections import Counter

import pytest

from tests.simulation.bugs import Bug
from tests.simulation.campaign import main
from tests.simulation.memcached.bugs import BUGS
from tests.simulation.memcached.engine import EVERYTHING, MEMCACHED, PATIENT
from tests.simulation.memcached.faults import CacheFaults
from tests.simulation.network import CALM
from tests.simulation.simulator import Setting, run
from tests.simulation.sizes import BOUT, DUEL

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("alone")]

DUELS = 300
BOUTS = 60
"""How many CI looks at; `make sim` looks at more."""
SWARMS = 30
SOUND_SEEDS = 8
FINDING = 100
"""Within so many seeds each bug must be found; most are in the first few."""
NOT_HERE = {"duplicated", "ring_lost", "data_lost", "drift"}
"""A command is never sent again by itself, nobody is rung, and every restart loses everything."""
RESTARTS = CacheFaults(engine_restarts=0.3, slow=0.1, processes_stop=0.3, drift=0.004)


def test_many_duels_break_nothing() -> None:
    for seed in range(DUELS):
        outcome = run(seed, Setting(MEMCACHED, size=DUEL))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


def test_with_a_longer_delay_a_restart_makes_no_two_holders() -> None:
    """Seeds 5, 14 and 87 have found a way around it once: a free item that was known by heart."""
    for seed in range(100):
        outcome = run(seed, Setting(PATIENT, RESTARTS, ("mutex",), size=BOUT))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


@pytest.mark.slow
def test_many_bouts_break_nothing() -> None:
    for seed in range(BOUTS):
        outcome = run(seed, Setting(MEMCACHED, size=BOUT))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


@pytest.mark.slow
def test_many_swarms_break_nothing_and_every_fault_was_there() -> None:
    met: Counter[str] = Counter()
    for seed in range(SWARMS):
        outcome = run(seed, Setting(MEMCACHED))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"
        met += outcome.faults + outcome.seen
    faults = set(EVERYTHING.__dataclass_fields__) - NOT_HERE | {"holds_broken"}
    told = {"granted", "handed_over", "released", "timed_out", "at_risk", "broken"}
    lost = {f"lost: {why}" for why in ("expired", "taken", "broken: stuck", "max_hold")}
    assert faults | told | lost <= {what for what, often in met.items() if often > 0}


def test_the_same_seed_gives_the_same_history_on_every_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Items name the host, the process and the time."""
    setting = Setting(MEMCACHED, faults=EVERYTHING, size=BOUT)
    here = run(3, setting).history
    assert run(3, setting).history == here
    monkeypatch.setattr(socket, "gethostname", lambda: "a-host-with-a-long-name.example")
    monkeypatch.setattr(os, "getpid", lambda: 7)
    assert run(3, setting).history == here


def test_without_faults_everybody_gets_on() -> None:
    for seed in range(3):
        outcome = run(seed, Setting(MEMCACHED, faults=CALM))
        assert not outcome.violations
        assert not outcome.faults.keys() - {"holds_broken"}
        assert outcome.acquired > 20


SOUND = {repr(bug.without): name for name, bug in BUGS.items()}
"""One of each kind: many bugs are looked for under the same circumstances."""


@pytest.mark.parametrize("name", SOUND.values())
@pytest.mark.slow
def test_what_hunts_a_bug_breaks_nothing_that_is_sound(name: str) -> None:
    """For a fixed number of seeds, not just until the bug is found."""
    for seed in range(SOUND_SEEDS):
        outcome = run(seed, BUGS[name].without)
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
@pytest.mark.slow
def test_a_seeded_bug_is_found(bug: Bug) -> None:
    for seed in range(FINDING):
        broken = {violation.rule for violation in run(seed, bug.setting).violations}
        if broken & set(bug.rules):
            sound = run(seed, bug.without)
            assert not sound.violations, f"seed {seed}: {sound.violations[0]}"
            return
    pytest.fail("not found")


def test_the_command_line_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2", "--engine", "memcached", "--size", "duel"]) == 0
    assert main(["--seeds", "0", "--engine", "memcached", "--bug", "memcached-claims-by-add"]) == 0
    told = capsys.readouterr().out
    assert "again by --seeds 0 --engine memcached --bug memcached-claims-by-add" in told
    with pytest.raises(SystemExit, match="memcached-renew-by-touch"):
        main(["--engine", "memcached", "--bug", "no such"])
