"""ARCHITECTURE.md is one screen, and what it names is there; the core's docstring is its map."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.contracts.sources import PACKAGE, ROOT

PAGE = ROOT / "ARCHITECTURE.md"
SCREEN = 50, 120
"""Lines, and characters of a line."""


def tree(text: str) -> Iterator[str]:
    """The files and folders of the block at the top, as they stand in it."""
    for line in text.split("```")[1].splitlines():
        yield from re.findall(r"\b(?:\w+\.py\b|\w+/)", line.removeprefix("src/locknut/"))


def mapped(docstring: str) -> set[str]:
    """The modules that the lines of a map name."""
    lines = re.findall(r"^[A-Z][^:.]*:  +(.+)$", docstring, re.MULTILINE)
    return {name for line in lines for name in line.split(", ")}


def test_it_is_one_screen() -> None:
    lines = PAGE.read_text().splitlines()
    assert len(lines) <= SCREEN[0]
    assert not [line for line in lines if len(line) > SCREEN[1]]


def test_its_tree_is_that_of_the_package() -> None:
    named = set(tree(PAGE.read_text()))
    assert not [name for name in named if not (PACKAGE / name).exists()]
    folders = {f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    files = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    assert not (folders | files) - named


def test_the_core_maps_its_files() -> None:
    files = {path.stem for path in (PACKAGE / "core").glob("*.py")} - {"__init__"}
    assert mapped((PACKAGE / "core" / "__init__.py").read_text()) == files


def test_every_path_in_its_text_exists() -> None:
    text = PAGE.read_text().split("```")[2]
    paths = re.findall(r"`([\w/]+/(?:\w+\.py)?)`", text)
    assert paths
    assert not [path for path in paths if not any((at / path).exists() for at in (PACKAGE, ROOT))]


def test_a_file_that_is_gone_is_noticed() -> None:
    block = "```\nsrc/locknut/\n  core/<x>/  pure (nowhere/)\n  errors.py  not.here\n```"
    assert list(tree(block)) == ["core/", "nowhere/", "errors.py"]
    assert mapped("Title.\n\nState:   client, callers\nNo map: of this\n") == {"client", "callers"}
