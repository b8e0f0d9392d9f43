"""The production Lua, recipe and waiting in the simulator: nothing breaks, bugs are found."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from tests.simulation.bugs import Bug
from tests.simulation.campaign import main
from tests.simulation.checker.history import Kind
from tests.simulation.network import CALM
from tests.simulation.redis.aio import SimAsyncio
from tests.simulation.redis.bugs import BUGS
from tests.simulation.redis.engine import EVERYTHING, REDIS
from tests.simulation.redis.sync import SimBlocking
from tests.simulation.simulator import Setting, run
from tests.simulation.sizes import DUEL

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("alone")]

SEEDS = 40
"""How many swarms CI looks at; `make sim` looks at more."""
SOUND_SEEDS = 10
FINDING = 150
"""Within so many seeds each bug must be found; most are in the first few."""
NOT_OF_TCP = {"duplicated", "ring_lost", "drift"}
"""A stream has no duplicates, and nothing is lost from the middle of it."""


@pytest.mark.slow
@pytest.mark.timeout(600)  # half a minute, on a machine that has nothing else to do
def test_many_swarms_break_nothing_and_every_fault_was_there() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run(seed, Setting(REDIS))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"
        met += outcome.faults + outcome.seen
    faults = set(EVERYTHING.__dataclass_fields__) - NOT_OF_TCP | {"holds_broken"}
    told = {"granted", "handed_over", "released", "timed_out", "at_risk", "broken"}
    lost = {f"lost: {why}" for why in ("expired", "taken", "broken: stuck", "max_hold")}
    assert faults | told | lost <= {what for what, often in met.items() if often > 0}
    assert not [what for what in met if what.startswith("refused")]


@pytest.mark.parametrize("seed", [91001244, 91003386])
def test_what_was_found_once_is_looked_at_again(seed: int) -> None:
    """91001244: the key with a tombstone was deleted, so the one beside it lived until its end.
    91003386: a place in line could not be taken back during an outage, and nobody asked after it.
    """
    assert not run(seed, Setting(REDIS, size=DUEL)).violations


@pytest.mark.parametrize("seed", [3, 14])
@pytest.mark.slow
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    setting = Setting(REDIS, faults=EVERYTHING)
    assert run(seed, setting).history == run(seed, setting).history


def test_the_same_seed_gives_the_same_history_on_every_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands name the host and the process, and a longer one may be split elsewhere."""
    setting = Setting(REDIS, faults=EVERYTHING)
    here = run(3, setting).history
    monkeypatch.setattr(socket, "gethostname", lambda: "a-host-with-a-long-name.example")
    monkeypatch.setattr(os, "getpid", lambda: 7)
    assert run(3, setting).history == here


def test_without_faults_everybody_gets_on() -> None:
    for seed in range(5):
        outcome = run(seed, Setting(REDIS, faults=CALM))
        assert not outcome.violations
        assert not outcome.faults.keys() - {"holds_broken"}
        assert outcome.acquired > 20


@pytest.mark.parametrize("colour", [SimBlocking, SimAsyncio])
def test_a_grant_reaches_its_owner_by_its_message(colour: type) -> None:
    """Nothing here would be broken without it, only slow: asking again finds every grant."""
    gaps, granted = [], 0.0
    for seed in range(3):
        setting = Setting(replace(REDIS, backend=colour), faults=CALM, only=("fair",))
        for event in run(seed, setting).history:
            if event.kind is Kind.GRANTED:
                granted = event.t
            elif event.kind is Kind.ACQUIRED:
                gaps.append(event.t - granted)
    assert len(gaps) > 50
    assert max(gaps) < 0.1


SOUND = {repr(bug.without): name for name, bug in BUGS.items()}
"""One of each kind: many bugs are looked for under the same circumstances."""


@pytest.mark.timeout(600)
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
        sound = run(seed, bug.without)
        assert not sound.violations, f"seed {seed}: {sound.violations[0]}"
        broken = {violation.rule for violation in run(seed, bug.setting).violations}
        if broken & set(bug.rules):
            return
    pytest.fail("not found")


def test_the_command_line_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2", "--engine", "redis"]) == 0
    assert main(["--seeds", "0", "--engine", "redis", "--bug", "redis-release-anybody"]) == 0
    told = capsys.readouterr().out
    assert "again by --seeds 0 --engine redis --bug redis-release-anybody" in told
    with pytest.raises(SystemExit, match="redis-no-tombstone"):
        main(["--engine", "redis", "--bug", "no such"])


def test_the_simulator_of_the_core_needs_no_lua() -> None:
    program = (
        "import sys; sys.modules['lupa'] = sys.modules['hiredis'] = None\n"
        "import tests.simulation.bugs\n"
        "from tests.simulation.campaign import main\n"
        "sys.exit(main(['--seeds', '0']))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
