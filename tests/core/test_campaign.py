"""Many seeds in several processes: what is sent to them, and what comes back."""

from __future__ import annotations

import pytest

from tests.simulation.campaign import main

TWO = ("--seeds", "0:2", "--jobs", "2")


@pytest.mark.parametrize("engine", ["core", "redis", "redlock", "sql"])
def test_every_engine_runs_in_several_processes(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TWO, "--engine", engine, "--size", "duel"]) == 0
    assert "2 seeds, " in capsys.readouterr().out


def test_what_a_bug_broke_comes_back_with_its_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TWO, "--bug", "release-anybody", "--size", "full"]) == 0
    told = capsys.readouterr().out
    assert "seed 0 is broken; again by --seeds 0 --bug release-anybody --size full\n" in told
    assert "what happened around it:" in told
