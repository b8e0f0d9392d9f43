"""What the simulator must show of every engine: nothing breaks, and each bug put in is found."""

from __future__ import annotations

import gc
import os
import socket
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pytest

from tests.simulation.bugs import Bug
from tests.simulation.campaign import main
from tests.simulation.checker.history import Kind
from tests.simulation.network import CALM, Faults
from tests.simulation.simulator import Run, Setting, run
from tests.simulation.sizes import BOUT, DUEL
from tests.simulation.variant import Variant
from tests.simulation.world import World

TOLD = frozenset({"granted", "handed_over", "released", "timed_out", "at_risk", "broken"})
LOST = frozenset({"expired", "broken: stuck", "max_hold"})


def check(seed: int, setting: Setting) -> Run:
    """This seed breaks nothing."""
    outcome = run(seed, setting)
    assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"
    return outcome


def gaps(setting: Setting, granted: Kind = Kind.GRANTED) -> list[float]:
    """How long it took the next one to enter, each time, since the lock was free and wanted.
    Nothing would be broken if nobody were rung, only slow: looking again finds a free lock.
    """
    found, since = [], 0.0
    for seed in range(2):
        for event in run(seed, setting).history:
            if event.kind in {Kind.FREED, Kind.WAITING}:
                since = event.t
            elif event.kind is granted:
                found.append(event.t - since)
    assert len(found) > 50
    return found


def worlds_left(
    monkeypatch: pytest.MonkeyPatch, setting: Setting, seeds: Iterable[int]
) -> list[World]:
    """Those that are still there after their runs. Others in this process do not count: a test that
    failed keeps its own for the report.
    """
    made: list[weakref.ref[World]] = []
    begin = World.__init__

    def noted(world: World, *given: Any) -> None:
        made.append(weakref.ref(world))
        begin(world, *given)

    monkeypatch.setattr(World, "__init__", noted)
    ran = [run(seed, setting).seed for seed in seeds]
    for _ in range(3):  # what is collected may leave something to be collected
        gc.collect()
    assert len(made) == len(ran), "it looks at all of them"
    return [world for each in made if (world := each()) is not None]


class SimulatedEngine:
    """The tests; a subclass says which engine. `make sim` looks at more seeds than CI does."""

    engine: ClassVar[str]
    """Its name on the command line of the simulator."""
    variant: ClassVar[Variant]
    everything: ClassVar[Faults]
    bugs: ClassVar[Mapping[str, Bug]]
    found_by_seed_0: ClassVar[str]
    """A bug that the first seed shows."""
    duels: ClassVar[int] = 300
    bouts: ClassVar[int] = 60
    swarms: ClassVar[int] = 40
    sound_seeds: ClassVar[int] = 8
    finding: ClassVar[int] = 100
    """Within so many seeds each bug must be found; most are in the first few."""
    not_here: ClassVar[frozenset[str]] = frozenset({"duplicated", "data_lost", "drift"})
    """Faults that this engine does not meet, or that are not counted."""
    also_met: ClassVar[frozenset[str]]
    """What else must have happened in the swarms."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each bug; and one for each kind of circumstances, which many share."""
        if "bug" in metafunc.fixturenames:
            metafunc.parametrize("bug", self.bugs.values(), ids=list(self.bugs))
        if "sound" in metafunc.fixturenames:
            kinds = {repr(bug.without): name for name, bug in self.bugs.items()}
            settings = [self.bugs[name].without for name in kinds.values()]
            metafunc.parametrize("sound", settings, ids=list(kinds.values()))

    def test_many_duels_break_nothing(self) -> None:
        for seed in range(self.duels):
            check(seed, Setting(self.variant, size=DUEL))

    def test_nothing_stays_of_a_world_that_is_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A million of them would not fit."""
        assert not worlds_left(monkeypatch, Setting(self.variant, size=DUEL), range(10))

    @pytest.mark.slow
    def test_many_bouts_break_nothing(self) -> None:
        for seed in range(self.bouts):
            check(seed, Setting(self.variant, size=BOUT))

    @pytest.mark.slow
    def test_many_swarms_break_nothing_and_every_fault_was_there(self) -> None:
        met: Counter[str] = Counter()
        for seed in range(self.swarms):
            outcome = check(seed, Setting(self.variant))
            met += outcome.faults + outcome.seen
        faults = set(self.everything.__dataclass_fields__) - self.not_here | {"holds_broken"}
        lost = {f"lost: {why}" for why in LOST}
        assert faults | TOLD | lost | self.also_met <= set(+met)

    def test_the_same_seed_gives_the_same_history_on_every_machine(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is written may name the host and the process."""
        setting = Setting(self.variant, faults=self.everything, size=BOUT)
        here = run(3, setting).history
        assert run(3, setting).history == here
        monkeypatch.setattr(socket, "gethostname", lambda: "a-host-with-a-long-name.example")
        monkeypatch.setattr(os, "getpid", lambda: 7)
        assert run(3, setting).history == here

    def test_without_faults_everybody_gets_on(self) -> None:
        for seed in range(3):
            outcome = check(seed, Setting(self.variant, faults=CALM))
            assert not outcome.faults.keys() - {"holds_broken"}
            assert outcome.acquired > 20

    @pytest.mark.slow
    def test_what_hunts_a_bug_breaks_nothing_that_is_sound(self, sound: Setting) -> None:
        """For a fixed number of seeds, not just until the bug is found."""
        for seed in range(self.sound_seeds):
            check(seed, sound)

    @pytest.mark.slow
    def test_a_seeded_bug_is_found(self, bug: Bug) -> None:
        for seed in range(bug.seeds or self.finding):
            broken = {violation.rule for violation in run(seed, bug.setting).violations}
            if broken & set(bug.rules):
                check(seed, bug.without)
                return
        pytest.fail("not found")

    def test_the_command_line_runs_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        of_it = ["--engine", self.engine]
        assert main(["--seeds", "0:2", *of_it, "--size", "duel"]) == 0
        assert main(["--seeds", "0", *of_it, "--bug", self.found_by_seed_0]) == 0
        told = capsys.readouterr().out
        assert f"again by --seeds 0 --engine {self.engine} --bug {self.found_by_seed_0}" in told
        with pytest.raises(SystemExit, match=self.found_by_seed_0):
            main([*of_it, "--bug", "no such"])
