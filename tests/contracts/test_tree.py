"""What lies in the repository: nothing of one machine, no half-finished work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.contracts.sources import ROOT, simulation, sources

MACHINES = [
    r"/roo[t]/",
    r"/hom[e]/\w+/",
    r"/wor[k]/",
    r"/User[s]/\w+/",
    r"pyp[i]\.org",
    r"pythonhoste[d]\.org",
    r"npmj[s]\.(org|com)",
    r"deb\.debia[n]\.org",
    r"archive\.ubunt[u]\.com",
]
"""Paths of somebody's machine and hosts of registries, spelt so as not to find themselves."""
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
IGNORED_FOLDERS = {
    ".git",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".servers",
    "__pycache__",
}


def tracked() -> list[Path]:
    """What git tracks or would; in a tree without git, everything that is not made here."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        return [ROOT / name for name in told.split("\0") if name and (ROOT / name).is_file()]
    found: list[Path] = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [n for n in names if n not in IGNORED_FOLDERS and not n.startswith(".venv")]
        found += [Path(folder, file) for file in files]
    return found


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize("pattern", MACHINES)
def test_nothing_of_one_machine_is_written_down(pattern: str) -> None:
    search = re.compile(rf"(?<![\w.]){pattern}")
    wrong = [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in tracked()
        if (found := search.search(text_of(path)))
    ]
    assert not wrong


def test_no_merge_was_left_half_done() -> None:
    marker = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    assert not [path for path in tracked() if marker.search(text_of(path))]


def test_no_source_is_unfinished() -> None:
    files = [*sources(), *simulation()]
    assert not [source for source in files if UNFINISHED.search(source.text)]


def test_programs_are_executable() -> None:
    programs = [ROOT / ".ci" / "run", ROOT / "scripts" / "python"]
    assert all(os.access(program, os.X_OK) for program in programs)
