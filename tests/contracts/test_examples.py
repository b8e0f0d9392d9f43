"""Every program in `examples/` runs by itself, proves something, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.sources import ROOT
from tests.servers.redis import RedisServer

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SCRIPTS = sorted((ROOT / "examples").glob("*.sh"))
ON_ANY_ENGINE = [path for path in EXAMPLES if "LOCKNUT_URL" in path.read_text()]


HEAVY = {"migrate_alembic_django.py"}
"""Six processes, each with a framework."""
PROGRAMS = [
    pytest.param(path, marks=[pytest.mark.slow] if path.name in HEAVY else []) for path in EXAMPLES
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user of his own, with nothing set and `locknut` on the PATH."""
    program = tmp_path / "bin" / "locknut"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m locknut "$@"\n')
    program.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOCKNUT")}
    for name in ("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        folder = tmp_path / name.lower()
        folder.mkdir(mode=0o700)
        clean[name] = str(folder)
    path = f"{program.parent}{os.pathsep}{clean.get('PATH', '')}"
    return clean | {"PYTHONPATH": str(ROOT / "src"), "PATH": path}


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda path: path.name)
def test_an_example_proves_its_point(
    example: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    said = run([sys.executable, str(example)], tmp_path, environment)
    assert "Proved:" in said.splitlines()[-1]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_shell_example_proves_its_point(
    script: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    said = run(["sh", str(script)], tmp_path, environment)
    assert "Proved:" in said.splitlines()[-1]


@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.parametrize("example", ON_ANY_ENGINE, ids=lambda path: path.name)
def test_an_example_proves_its_point_on_redis(
    example: Path, tmp_path: Path, environment: dict[str, str], redis_server: RedisServer
) -> None:
    redis_server.flushall()
    environment["LOCKNUT_URL"] = redis_server.url
    said = run([sys.executable, str(example)], tmp_path, environment)
    assert "Proved:" in said.splitlines()[-1]
    assert redis_server.ask("KEYS", "example-*"), "its locks were there"


def test_the_readme_tells_of_every_example() -> None:
    readme = (ROOT / "examples" / "README.md").read_text()
    assert not [path.name for path in [*EXAMPLES, *SCRIPTS] if path.name not in readme]
