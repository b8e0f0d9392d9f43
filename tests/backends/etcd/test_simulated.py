"""The production recipe, backend and waiting on a simulated cluster: nothing breaks, and each bug
that locks on etcd are known for is found.
"""

from __future__ import annotations

import os
import socket
from collections import Counter

import pytest

from tests.simulation.bugs import Bug
from tests.simulation.campaign import main
from tests.simulation.checker.history import Kind
from tests.simulation.etcd.bugs import BUGS
from tests.simulation.etcd.engine import ETCD, EVERYTHING
from tests.simulation.network import CALM
from tests.simulation.simulator import Setting, run
from tests.simulation.sizes import BOUT, DUEL

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("alone")]

DUELS = 100
BOUTS = 30
"""How many CI looks at; `make sim` looks at more."""
SWARMS = 20
SOUND_SEEDS = 4
FINDING = 60
"""Within so many seeds each bug must be found; most are in the first few."""
NOT_HERE = {"duplicated", "data_lost", "drift", "clock_set_back"}
"""A command is never sent again by itself, and nobody looks at the time of day."""


def test_many_duels_break_nothing() -> None:
    for seed in range(DUELS):
        outcome = run(seed, Setting(ETCD, size=DUEL))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


@pytest.mark.slow
def test_many_bouts_break_nothing() -> None:
    for seed in range(BOUTS):
        outcome = run(seed, Setting(ETCD, size=BOUT))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


@pytest.mark.slow
def test_many_swarms_break_nothing_and_every_fault_was_there() -> None:
    met: Counter[str] = Counter()
    for seed in range(SWARMS):
        outcome = run(seed, Setting(ETCD))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"
        met += outcome.faults + outcome.seen
    faults = set(EVERYTHING.__dataclass_fields__) - NOT_HERE
    faults |= {"holds_broken", "deposed_leader_asked"}
    told = {"granted", "handed_over", "released", "timed_out", "at_risk", "broken"}
    lost = {f"lost: {why}" for why in ("expired", "session", "broken: stuck", "max_hold")}
    assert faults | told | lost <= {what for what, often in met.items() if often > 0}


def test_the_same_seed_gives_the_same_history() -> None:
    setting = Setting(ETCD, faults=EVERYTHING, size=BOUT)
    assert run(3, setting).history == run(3, setting).history


def test_the_same_seed_gives_the_same_history_on_every_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys name the host and the process."""
    setting = Setting(ETCD, faults=EVERYTHING, size=BOUT)
    here = run(3, setting).history
    monkeypatch.setattr(socket, "gethostname", lambda: "a-host-with-a-long-name.example")
    monkeypatch.setattr(os, "getpid", lambda: 7)
    assert run(3, setting).history == here


def test_without_faults_everybody_gets_on() -> None:
    for seed in range(3):
        outcome = run(seed, Setting(ETCD, faults=CALM))
        assert not outcome.violations
        assert not outcome.faults.keys() - {"holds_broken"}
        assert outcome.acquired > 20


@pytest.mark.parametrize("place", ["fair", "permits"])
def test_the_next_one_enters_soon(place: str) -> None:
    """Nothing would be broken without the ring, only slow: looking again finds a free lock."""
    gaps, freed = [], 0.0
    for seed in range(2):
        for event in run(seed, Setting(ETCD, faults=CALM, only=(place,))).history:
            if event.kind in {Kind.FREED, Kind.WAITING}:
                freed = event.t
            elif event.kind is Kind.ACQUIRED:
                gaps.append(event.t - freed)
    assert len(gaps) > 50
    assert max(gaps) < 0.1


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
    assert main(["--seeds", "0:2", "--engine", "etcd", "--size", "duel"]) == 0
    assert main(["--seeds", "0", "--engine", "etcd", "--bug", "etcd-wrong-predecessor"]) == 0
    told = capsys.readouterr().out
    assert "again by --seeds 0 --engine etcd --bug etcd-wrong-predecessor" in told
    with pytest.raises(SystemExit, match="etcd-no-tombstone"):
        main(["--engine", "etcd", "--bug", "no such"])
