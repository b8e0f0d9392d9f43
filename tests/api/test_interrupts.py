"""Ctrl-C at any moment around a lock leaves no ghost: nobody holds, nobody stands in line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.api import stepped, storm

ENGINES = pytest.mark.parametrize("engine", ["memory:storm", "file:"])
CLEAN = ["hits True rounds True rival stuck False", "left [] [] {}", "next True"]


@pytest.mark.faults
@ENGINES
@pytest.mark.parametrize("kind", stepped.KINDS)
def test_an_interrupt_at_each_moment_leaves_nothing_behind(
    engine: str, kind: str, tmp_path: Path
) -> None:
    every = "2" if engine == "memory:storm" else "5"  # all of them take minutes on a busy machine
    found = program("stepping", url(engine, tmp_path), kind, every)
    assert len(found) == 1, found
    assert int(found[0].split()[0]) > 10  # CPython 3.13.0 shows few of them


@pytest.mark.faults
@ENGINES
@pytest.mark.parametrize("kind", storm.KINDS)
def test_a_storm_of_interrupts_leaves_nothing_behind(
    engine: str, kind: str, tmp_path: Path
) -> None:
    """At random moments, and with a rival in another thread."""
    assert program("storm", url(engine, tmp_path), kind, "2", "1") == CLEAN


def url(engine: str, place: Path) -> str:
    return f"file://{place}/locks" if engine == "file:" else engine


def program(name: str, *arguments: str) -> list[str]:
    # A coroutine interrupted before its first step "was never awaited": true, and harmless.
    quiet = ("-W", "ignore::RuntimeWarning")
    result = subprocess.run(
        [sys.executable, *quiet, "-m", f"tests.api.{name}", *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.stderr == ""
    print(result.stdout)
    return result.stdout.splitlines()
