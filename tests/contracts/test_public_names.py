"""The public names are a reviewed file: adding or losing one shows in the diff."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.sources import ROOT
from tests.contracts.surface import surface

REVIEWED = Path(__file__).with_name("public_names.txt")
TOO_MUCH = {
    "argparse", "asyncio", "concurrent.futures", "email", "http", "importlib.metadata",
    "multiprocessing", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "unittest",
    "grpc", "kazoo", "psycopg", "pymemcache", "pymysql", "redis",
}  # fmt: skip
"""What `import locknut` must not cost those who do not use it."""


def test_the_public_names_are_the_reviewed_ones() -> None:
    reviewed = REVIEWED.read_text().splitlines()
    change = "\n".join(difflib.unified_diff(reviewed, surface(), "reviewed", "now", lineterm=""))
    assert not change, f"{change}\n\nIf this is meant: see {Path('tests/contracts/surface.py')}"


@pytest.mark.parametrize("module", ["locknut", "locknut.errors", "locknut.guards"])
def test_importing_pulls_in_nothing_heavy(module: str) -> None:
    program = f"""
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    command = [sys.executable, "-c", program]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    told = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    loaded = set(json.loads(told))
    assert module in loaded
    assert not loaded & TOO_MUCH
    assert not {name for name in loaded if name.startswith("locknut.backends.")}
