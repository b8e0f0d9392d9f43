"""ARCHITECTURE.md is one screen, and what it names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.contracts.sources import PACKAGE, ROOT

PAGE = ROOT / "ARCHITECTURE.md"
SCREEN = 60
"""Lines."""
_NAME = re.compile(r"\b\w+\.py\b")


def tree(text: str) -> Iterator[Path]:
    """The files and folders of the block at the top, where they stand in the package."""
    folder = PACKAGE
    for line in text.split("```")[1].splitlines()[2:]:
        begins = re.match(r"  (\w+)/ ", line)
        if begins:
            folder = PACKAGE / begins.group(1)
            yield folder
        elif not line.startswith("    "):
            folder = PACKAGE
        yield from (folder / name for name in _NAME.findall(line))


def test_it_is_one_screen() -> None:
    assert len(PAGE.read_text().splitlines()) <= SCREEN


def test_every_file_of_its_tree_exists() -> None:
    assert not [path for path in tree(PAGE.read_text()) if not path.exists()]


def test_every_file_of_the_core_and_of_the_faces_is_in_its_tree() -> None:
    folders = [PACKAGE, *(PACKAGE / each for each in ("faces", "blocking", "aio", "core"))]
    files = [path for folder in folders for path in folder.glob("*.py")]
    missing = {path for path in files if not path.name.startswith("__")} - set(
        tree(PAGE.read_text())
    )
    assert not missing


def test_every_path_in_its_text_exists() -> None:
    text = PAGE.read_text().split("```")[2]
    paths = re.findall(r"`([\w/]+/(?:\w+\.py)?)`", text)
    assert paths
    assert not [path for path in paths if not any((at / path).exists() for at in (PACKAGE, ROOT))]


def test_a_file_that_is_gone_is_noticed() -> None:
    (folder, file, top) = tree("```\nsrc/locknut/\n  core/ pure\n    nowhere.py\n  errors.py\n```")
    assert (folder, file, top) == (
        *(PACKAGE / "core", PACKAGE / "core" / "nowhere.py", PACKAGE / "errors.py"),
    )
    assert not file.exists()
