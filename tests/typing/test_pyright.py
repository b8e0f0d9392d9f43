"""Pyright, which most editors use, sees in `right.py` and `wrong.py` what mypy sees there.

mypy reads both files with all others (`make check`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.contracts.sources import ROOT


def test_pyright_agrees() -> None:
    if find_spec("basedpyright") is None:
        # The environment of somebody else, older than this test; CI makes its own.
        assert not os.environ.get("CI"), "basedpyright is missing: it is in the group `check`"
        pytest.skip("basedpyright is not in this environment: `make setup` where it is your own")
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--project", str(ROOT), "--level", "error"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 errors" in done.stdout
