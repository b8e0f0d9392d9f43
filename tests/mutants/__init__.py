"""Small wrong changes to the code, each of which some test must notice: the tables, and how they
are read.

A table is a TOML file about one part of the package. Each mutant says what it breaks, and replaces
one piece of text, which must be found exactly once, by another.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


class Mutant(NamedTuple):
    """One wrong change."""

    id: str
    part: str
    """The name of its table."""
    file: str
    """From the root of the tree."""
    before: str
    after: str
    breaks: str
    tests: tuple[str, ...]
    """What has to notice it, as pytest is told."""

    def found_in(self, tree: Path) -> int:
        """How often the text is there."""
        place = tree / self.file
        return place.read_text(encoding="utf-8").count(self.before) if place.exists() else 0

    def applied_to(self, text: str) -> str:
        return text.replace(self.before, self.after, 1)


def load() -> list[Mutant]:
    """All mutants of all tables, by their ids."""
    return [mutant for table in sorted(FOLDER.glob("*.toml")) for mutant in _read(table)]


def _read(table: Path) -> list[Mutant]:
    content = tomllib.loads(table.read_text(encoding="utf-8"))
    return [
        Mutant(
            id=f"{table.stem}-{name}",
            part=table.stem,
            file=f"{content['folder']}/{entry['file']}",
            before=_text(entry["before"]),
            after=_text(entry["after"]),
            breaks=entry["breaks"],
            tests=tuple(entry.get("tests", content["tests"])),
        )
        for name, entry in content["mutants"].items()
    ]


def _text(written: str) -> str:
    """Without the line break before the closing quotes."""
    return written.removesuffix("\n")
