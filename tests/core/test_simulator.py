"""The core keeps its promises under faults; one seed is one run; and seeded bugs are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from locknut.core.lock_request import LockOptions
from tests.simulation.bugs import BUGS, Bug
from tests.simulation.campaign import main
from tests.simulation.customer import Customer
from tests.simulation.memory.node import Node
from tests.simulation.network import CALM, EVERYTHING, Network, StoreFaults
from tests.simulation.simulator import Setting, run
from tests.simulation.variant import REAL
from tests.simulation.world import World

pytestmark = pytest.mark.usefixtures("alone")
SEEDS = 60
"""How many swarms CI looks at; `python -m tests.simulation` looks at more."""
SOUND_SEEDS = 20
FINDING = 150
"""Within so many seeds each bug must be found; most are in the first few."""


@pytest.mark.slow
@pytest.mark.timeout(600)  # half a minute, on a machine that has nothing else to do
def test_many_swarms_break_nothing_and_every_fault_was_there() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run(seed)
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"
        met += outcome.faults + outcome.seen
    faults = set(EVERYTHING.__dataclass_fields__) - {"drift"} | {"holds_broken"}
    told = {"granted", "handed_over", "released", "timed_out", "at_risk", "broken"}
    lost = {f"lost: {why}" for why in ("expired", "taken", "broken: stuck", "max_hold")}
    assert faults | told | lost <= {what for what, often in met.items() if often > 0}


def test_an_older_state_breaks_nothing_among_owners() -> None:
    """Who joins a hold that is back goes on with its number; what had run out is not back."""
    setting = Setting(REAL, StoreFaults(older_state=0.5), ("owned",))
    for seed in range(SOUND_SEEDS):
        outcome = run(seed, setting)
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


@pytest.mark.parametrize("seed", [3, 14, 15])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    setting = Setting(faults=EVERYTHING)
    assert run(seed, setting).history == run(seed, setting).history


def test_the_same_seed_gives_the_same_history_in_every_interpreter() -> None:
    """No set or dict of the simulator is ordered by hashes that differ from process to process."""
    program = "from tests.simulation.simulator import run; print(run(5).history)"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_another_seed_gives_another_history() -> None:
    assert run(1).history != run(2).history


def test_without_faults_everybody_gets_on() -> None:
    for seed in range(10):
        outcome = run(seed, Setting(faults=CALM))
        assert not outcome.violations
        assert not outcome.faults.keys() - {"holds_broken"}
        assert outcome.acquired > 20


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


@pytest.mark.timeout(600)
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


def test_a_patch_is_gone_after_the_run() -> None:
    patches = [patch for bug in BUGS.values() for patch in bug.variant.patches]
    before = [getattr(patch.where, patch.name) for patch in patches]
    run(0, BUGS["turn-not-passed-on"].setting)
    assert [getattr(patch.where, patch.name) for patch in patches] == before


def test_the_command_line_tells_what_it_saw(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2"]) == 0
    assert "2 seeds" in capsys.readouterr().out
    assert main(["--seeds", "0", "--bug", "release-anybody"]) == 0
    told = capsys.readouterr().out
    assert "again by --seeds 0 --bug release-anybody" in told
    assert "engine   freed" in told
    assert main(["--seeds", "0", "--bug", "no-margin"]) == 1


class TestTheWorld:
    def test_a_guard_held_over_a_suspension_is_noticed(self) -> None:
        world = World(0)
        customer = _customer(world)

        async def careless() -> None:
            with customer.runtime.guard():
                await customer.sleep(1)

        customer.process.spawn(careless(), "careless")
        with pytest.raises(AssertionError, match="held a guard"):
            world.run(2)

    def test_a_guard_taken_twice_is_noticed(self) -> None:
        guard = _customer(World(0)).runtime.guard()
        with guard, pytest.raises(AssertionError, match="would hang"), guard:
            pass

    def test_an_endless_loop_is_noticed(self) -> None:
        world = World(0)

        def spin() -> None:
            world.soon(spin)

        spin()
        with pytest.raises(AssertionError, match="spins"):
            world.run(1)

    def test_a_stopped_process_misses_nothing(self) -> None:
        world = World(0)
        customer = _customer(world)
        woken: list[float] = []

        async def sleeper() -> None:
            await customer.sleep(1)
            woken.append(world.now)

        customer.process.spawn(sleeper(), "sleeper")
        world.run(0.5)
        customer.process.stop()
        world.run(7)
        assert woken == []
        customer.process.resume()
        world.run(8)
        assert woken == [7.0]

    def test_a_crash_runs_nothing_and_frees_nothing(self) -> None:
        world = World(0)
        customer = _customer(world)

        async def holder() -> None:
            lease = await customer.acquire("name", LockOptions(60.0), 1.0)
            assert lease is not None
            try:
                await customer.sleep(50)
            finally:
                await customer.release(lease)

        customer.process.spawn(holder(), "holder")
        world.run(1)
        customer.process.crash()
        events = len(world.history)
        world.run(20)
        assert len(world.history) == events


def _customer(world: World) -> Customer:
    node = Node(world, Network(world, CALM))
    return Customer(world.process("p"), node, REAL)
