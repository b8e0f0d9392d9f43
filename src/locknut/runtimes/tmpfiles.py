"""Whether systemd-tmpfiles cleans up a path by the age of its files: a reading of tmpfiles.d(5).

The line with the longest path that leads to ours decides. Lines whose path has specifiers (%h) are
passed over, and so are files that we may not read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

FOLDERS: Final = (
    "/etc/tmpfiles.d",
    "/run/tmpfiles.d",
    "/usr/local/lib/tmpfiles.d",
    "/usr/lib/tmpfiles.d",
)
"""A file in one of them hides those of the same name in the later ones."""
_CLEANED: Final = frozenset("dDevqQC")
_EXCLUDED: Final = frozenset("xX")
_AGE: Final = 5
"""Which word of a line is the age."""


class TmpfilesRule(NamedTuple):
    """One line, as far as it is about cleaning up."""

    kind: str
    path: str
    age: str
    file: str


def cleaning(path: str, folders: tuple[str, ...] | None = None) -> TmpfilesRule | None:
    """The line by which files in this directory are removed when they are old; None: there is
    none.
    """
    leading = [path, *map(str, Path(path).parents)]
    found: TmpfilesRule | None = None
    for rule in _rules(FOLDERS if folders is None else folders):
        if not any(fnmatchcase(each, rule.path) for each in leading):
            continue
        if rule.kind in _EXCLUDED:
            return None
        if found is None or len(rule.path) > len(found.path):
            found = rule
    return found if found is not None and found.age not in ("", "-") else None


def _rules(folders: tuple[str, ...]) -> Iterator[TmpfilesRule]:
    seen: set[str] = set()
    for folder in folders:
        for file in sorted(Path(folder).glob("*.conf")):
            if file.name not in seen:
                seen.add(file.name)
                yield from _of_file(file)


def _of_file(file: Path) -> Iterator[TmpfilesRule]:
    lines: list[str] = []
    with suppress(OSError):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        with suppress(ValueError):  # a quote without an end
            words = shlex.split(line, comments=True)
            if len(words) > 1 and "%" not in words[1]:
                kind, path = words[0][0], words[1].rstrip("/") or "/"
                age = words[_AGE] if len(words) > _AGE else ""
                if kind in _CLEANED | _EXCLUDED:
                    yield TmpfilesRule(kind, path, age.lstrip("~"), str(file))
