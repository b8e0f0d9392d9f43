"""In CI a skipped engine fails the run; elsewhere it is only listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SKIPPED

CONFTEST = Path(__file__).parent.parent / "conftest.py"
SKIPS = {
    "engine": "@pytest.mark.redis\n@pytest.mark.skip(reason='needs root')\ndef test_it(): ...",
    "unknown": "def test_it(): pytest.skip('the moon is full')",
    "allowed": "@pytest.mark.skip(reason='needs root')\ndef test_it(): ...",
}


def run(folder: Path, kind: str, *, ci: bool) -> int:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    tree = CONFTEST.parent.parent  # the servers' fixtures are found from there
    settings = f"[pytest]\nmarkers = redis: an engine\npythonpath = {tree}\n"
    (folder / "pytest.ini").write_text(settings)
    body = f"import pytest\n\ndef test_something(): ...\n\n{SKIPS[kind]}\n"
    (folder / "test_skips.py").write_text(body)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | ({"CI": "true"} if ci else {})
    command = [sys.executable, "-m", "pytest", "-q", str(folder), "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


@pytest.mark.parametrize(
    ("kind", "code"), [("engine", SKIPPED), ("unknown", SKIPPED), ("allowed", 0)]
)
def test_in_ci_only_known_reasons_may_skip(tmp_path: Path, kind: str, code: int) -> None:
    assert run(tmp_path, kind, ci=True) == code


@pytest.mark.parametrize("kind", SKIPS)
def test_elsewhere_a_skip_is_no_failure(tmp_path: Path, kind: str) -> None:
    assert run(tmp_path, kind, ci=False) == 0
