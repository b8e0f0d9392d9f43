"""Ctrl-C at any moment around a lock leaves no ghost: nobody holds, nobody stands in line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.storm import KINDS

STORM = Path(__file__).with_name("storm.py")


@pytest.mark.faults
@pytest.mark.parametrize("engine", ["memory:storm", "file:"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_storm_of_interrupts_leaves_nothing_behind(
    engine: str, kind: str, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/locks" if engine == "file:" else engine
    # A coroutine interrupted before its first step "was never awaited": true, and harmless.
    quiet = ("-W", "ignore::RuntimeWarning")
    result = subprocess.run(
        [sys.executable, *quiet, str(STORM), url, kind, "2", "1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "hits True rounds True rival stuck False",
        "left [] [] {}",
        "next True",
    ]
