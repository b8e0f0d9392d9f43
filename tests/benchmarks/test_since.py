"""An older commit can be measured beside this tree; how much faster either is, is not asserted."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import since
from benchmarks.slices import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "colour"),
    [
        ("core", "asyncio"),
        ("file", "blocking"),
        *(
            pytest.param(engine, colour, marks=getattr(pytest.mark, engine))
            for engine, colour in (
                ("redis", "asyncio"),
                ("redlock", "blocking"),
                ("zookeeper", "asyncio"),
            )
        ),
    ],
)
def test_each_process_of_both_sides_has_its_samples(engine: str, colour: str) -> None:
    with since.checked_out("HEAD") as then:
        assert then.root != ROOT
        sides = {"then": then, "now": since.tree(ROOT)}
        found = since.compare(sides, engine, colour, processes=1, rounds=2, seconds=0.001)
    assert {side: [len(one) for one in each] for side, each in found.items()} == {
        "then": [2],
        "now": [2],
    }
    assert all(math.isfinite(float(each)) for each in since.figures(found))


def test_a_tree_runs_its_own_code(tmp_path: Path) -> None:
    """Or else the same code would be measured twice, and nothing would ever become slower."""
    (tmp_path / "src/olden").mkdir(parents=True)
    (tmp_path / "src/olden/__init__.py").touch()
    package = tmp_path / "benchmarks"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "slices.py").write_text((ROOT / "benchmarks/slices.py").read_text())
    (package / "placing.py").write_text((ROOT / "benchmarks/placing.py").read_text())
    (package / "pairing.py").write_text(
        "import olden\n"
        "def slices(engine, name, place, callers):\n"
        "    assert (engine, name, place, callers) == ('file', 'olden.aio', 'here', 1)\n"
        "    return lambda count: {'wall': 41.0 + count, 'cpu': 1.0}\n"
    )
    with since.tree(tmp_path).contender("file", "asyncio", "here") as contender:
        assert contender.run(1) == {"wall": 42.0, "cpu": 1.0}
