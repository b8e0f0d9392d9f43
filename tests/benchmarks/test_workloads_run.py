"""The benchmarks stay alive: each workload runs with tiny counts and reports numbers that can be.

Nothing here asserts speed: a target missed in a run this small means nothing.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import reporting
from benchmarks.__main__ import measure
from benchmarks.plan import SMOKE
from benchmarks.workloads import WORKLOADS
from tests.conftest import ENGINES


def _marked(name: str) -> Any:
    """With the marker of its engine, so that a server that is not there fails the run in CI."""
    engine = name.partition(".")[0]
    return pytest.param(name, marks=[getattr(pytest.mark, engine)] if engine in ENGINES else [])


@pytest.mark.timeout(600)  # some start a dozen processes, one by one
@pytest.mark.parametrize("name", [_marked(name) for name in WORKLOADS])
@pytest.mark.slow
def test_a_workload_runs_and_reports_numbers_that_can_be(name: str, tmp_path: Path) -> None:
    table = measure(name, SMOKE)

    assert table.rows
    for row in table.rows:
        assert len(row) == len(table.columns)
        for cell in row:
            assert isinstance(cell, str) or (cell is not None and math.isfinite(cell))
    assert table.title in str(table)
    for target in table.targets:
        assert math.isfinite(target.measured)

    reporting.write_json(tmp_path / "run.json", {name: table}, reporting.circumstances())
    written = json.loads((tmp_path / "run.json").read_text())
    assert len(written["workloads"][name]["rows"]) == len(table.rows)
