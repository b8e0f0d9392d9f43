"""Programs that are interrupted around their locks, and what they say when nothing was left."""

from __future__ import annotations

import subprocess
import sys
from subprocess import PIPE

PATIENCE = 110.0
"""Less than a test has, so that what the program complained of is shown."""
CLEAN = ["hits True rounds True rival stuck False", "left [] [] {}", "next True"]


def storm(url: str, kind: str, longest: float = 8e-4) -> None:
    """At random moments, and with a rival in another thread."""
    assert _program("storm", url, kind, "2", "1", str(longest)) == CLEAN


def stepping(url: str, kind: str, every: int, least: int = 10, patience: float = PATIENCE) -> None:
    """Once at every so many-th moment there is."""
    found = _program("stepping", url, kind, str(every), patience=patience)
    assert len(found) == 1, found
    assert int(found[0].split()[0]) > least  # CPython 3.13.0 shows few of them


def _program(name: str, *arguments: str, patience: float = PATIENCE) -> list[str]:
    # A coroutine interrupted before its first step "was never awaited": true, and harmless.
    quiet = ("-W", "ignore::RuntimeWarning")
    program = [sys.executable, *quiet, "-m", f"tests.api.{name}", *arguments]
    with subprocess.Popen(program, stdout=PIPE, stderr=PIPE, text=True) as running:
        try:
            said, complaints = running.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            running.kill()
            said, complaints = running.communicate()
            complaints += f"not done after {patience:g} s"
    assert complaints == "", complaints
    print(said)
    return said.splitlines()
