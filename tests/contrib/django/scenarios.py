"""Scenarios that run in a process of their own, because Django is configured once per process.

The program calls `run(globals())`: each function `scenario_...` in it is run, and what it raised is
told as JSON. A test names one of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.contracts.sources import ROOT


def run(names: dict[str, Any]) -> None:
    told: dict[str, str] = {}
    for name, function in list(names.items()):
        if name.startswith("scenario_"):
            try:
                function()
            except BaseException:  # noqa: BLE001 -- it is told
                told[name] = traceback.format_exc()
            else:
                told[name] = ""
    print(json.dumps(told))


def outcomes(program: str, folder: Path, **variables: str) -> dict[str, str]:
    """What became of each scenario of this program, which runs in `folder`."""
    file = Path(__file__).with_name(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([f"{ROOT}/src", str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(file)],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return told


def scenarios_of(program: str) -> list[str]:
    lines = Path(__file__).with_name(program).read_text().splitlines()
    return [each[4:].partition("(")[0] for each in lines if each.startswith("def scenario_")]
