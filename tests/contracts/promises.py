"""What a page of the documentation promises, and which test shows it.

Each page has a file in `promises/`: README.md has `promises/README.toml`, docs/engines/file.md has
`promises/engines/file.toml`. It names every statement of the page by a few of its words:

    explains = [                  # says how, why or what for: no test could contradict it
      "For tests (see testing)",
    ]

    [[promise]]
    says = "a forked child starts with an empty service"
    shown_by = ["tests/api/test_forking.py::test_a_child_starts_anew"]

Words are compared without emphasis, links and line breaks. An excerpt that runs over several
statements covers all of them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.contracts.sources import ROOT
from tests.parsing import parse

FOLDER = Path(__file__).parent / "promises"
_FENCE = re.compile(r"^( *)```.*?^\1```[^\n]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_RULE = re.compile(r"^\s*\|[\s|:-]+\|\s*$")
_BREAK = re.compile(r"(?<=[.;!?])\s+")
_NEW_BLOCK = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


class Promise(NamedTuple):
    """A statement and its tests; none for one that only explains."""

    says: str
    shown_by: tuple[str, ...]


def promising_pages() -> list[Path]:
    """The pages whose every statement is either shown by a test or only explains."""
    return [
        ROOT / "README.md",
        ROOT / "docs" / "choosing.md",
        ROOT / "docs" / "django.md",
        ROOT / "docs" / "migrating.md",
        ROOT / "docs" / "one-pod-migrates.md",
        ROOT / "docs" / "recipes.md",
        ROOT / "docs" / "redis-compatible.md",
        ROOT / "docs" / "sqlalchemy.md",
        ROOT / "docs" / "tasks.md",
        ROOT / "docs" / "web.md",
        *sorted(ROOT.glob("docs/concepts/*.md")),
        *sorted(ROOT.glob("docs/engines/*.md")),
        *sorted(ROOT.glob("docs/migrating/*.md")),
    ]


def table_of(page: Path) -> Path:
    """Where the page's promises are listed."""
    below = page.relative_to(ROOT).with_suffix(".toml").as_posix().removeprefix("docs/")
    return FOLDER / below


def promises_of(page: Path) -> list[Promise]:
    listed = tomllib.loads(table_of(page).read_text())
    explained = [Promise(says, ()) for says in listed.get("explains", [])]
    shown = [Promise(each["says"], tuple(each["shown_by"])) for each in listed.get("promise", [])]
    return explained + shown


def plain(text: str) -> str:
    """The words alone."""
    text = _LINK.sub(r"\1", text)
    return " ".join(re.sub(r"[*`]", "", text).split())


def blocks_of(text: str) -> list[str]:
    """Paragraphs, list items and rows of tables, without code and headings."""
    blocks: list[list[str]] = [[]]
    lines = _FENCE.sub("", text).splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if not line.strip() or line.startswith("#") or _RULE.match(line) or _RULE.match(following):
            blocks.append([])
        elif line.lstrip().startswith("|"):
            first, _, rest = line.strip().strip("|").partition(" | ")
            blocks.append([f"{first}: {rest.replace(' | ', '; ')}" if first.strip() else rest])
        elif _NEW_BLOCK.match(line):
            blocks.append([_NEW_BLOCK.sub("", line)])
        else:
            blocks[-1].append(line)
    return [plain(" ".join(block)) for block in blocks if block]


def statements_of(text: str) -> list[str]:
    """Every sentence, or part of one that ends in a semicolon, of a page."""
    return [each for block in blocks_of(text) for each in _BREAK.split(block) if each]


def uncovered(text: str, promises: list[Promise]) -> list[str]:
    """Statements that no excerpt touches."""
    left: list[str] = []
    for block in blocks_of(text):
        touched = [
            range(at.start(), at.end())
            for promise in promises
            for at in re.finditer(re.escape(plain(promise.says)), block)
        ]
        start = 0
        for statement in _BREAK.split(block):
            start = block.index(statement, start)
            end = start + len(statement)
            if statement and not any(each.start < end and start < each.stop for each in touched):
                left.append(statement)
            start = end
    return left


@cache
def tests_in(file: Path) -> frozenset[str]:
    """`name` and `Class::name` of every test function in a file."""
    found: set[str] = set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in parse(file.read_text()).body:
        if isinstance(node, kinds):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, kinds)}
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def exists(test: str) -> bool:
    """Whether `tests/file.py::name` is there."""
    file, _, name = test.partition("::")
    return (ROOT / file).is_file() and name in tests_in(ROOT / file)
