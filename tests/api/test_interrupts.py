"""Ctrl-C at any moment around a lock leaves no ghost: nobody holds, nobody stands in line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api import interrupting, stepped, storm

pytestmark = pytest.mark.faults
ENGINES = pytest.mark.parametrize("engine", ["memory:storm", "file:"])


@ENGINES
@pytest.mark.parametrize("kind", stepped.KINDS)
def test_an_interrupt_at_each_moment_leaves_nothing_behind(
    engine: str, kind: str, tmp_path: Path
) -> None:
    every = 2 if engine == "memory:storm" else 5  # all of them take minutes on a busy machine
    interrupting.stepping(url(engine, tmp_path), kind, every)


@ENGINES
@pytest.mark.parametrize("kind", storm.KINDS)
@pytest.mark.slow
def test_a_storm_of_interrupts_leaves_nothing_behind(
    engine: str, kind: str, tmp_path: Path
) -> None:
    interrupting.storm(url(engine, tmp_path), kind)


def url(engine: str, place: Path) -> str:
    return f"file://{place}/locks" if engine == "file:" else engine
