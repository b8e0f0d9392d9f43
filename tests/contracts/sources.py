"""The sources as the contract tests see them: parsed, never imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

from tests.parsing import parse

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "locknut"
SIMULATION = ROOT / "tests" / "simulation"


class Source:
    """One file of the package, or of the simulator."""

    def __init__(self, path: Path, top: Path) -> None:
        self.path = path
        self._below = path.relative_to(top)
        self.name = self._below.as_posix()

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return parse(self.text, self.name)

    @property
    def module(self) -> str:
        """Its dotted name: `locknut.core.values`."""
        parts = self._below.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def imports(self) -> Iterator[tuple[int, str]]:
        """Every import with its line: `from a import b` is `a.b`, wherever it stands."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def sources(*folders: str) -> list[Source]:
    """The package's files, or those of some of its folders, in order."""
    roots = [PACKAGE / folder for folder in folders] or [PACKAGE]
    assert all(root.is_dir() for root in roots), "a rule about no file cannot fail"
    return [_source(path, PACKAGE.parent) for root in roots for path in sorted(root.rglob("*.py"))]


def simulation() -> list[Source]:
    """The simulator's files: not in the package, but under the same rules of style."""
    return [_source(path, ROOT) for path in sorted(SIMULATION.rglob("*.py"))]


@cache
def _source(path: Path, top: Path) -> Source:
    """The same object for all rules, so that each file is parsed once."""
    return Source(path, top)
