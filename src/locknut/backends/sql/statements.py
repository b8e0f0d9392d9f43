"""The statements of a dialect: a `.sql` file, in parts that begin with `-- its name`.

A part may be several statements, which go out together; its answer is that of the first that
returns a row. `{table}` is the table's name. A part whose name is in braces is no statement: it is
what that word stands for in the parts after it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple


class Statements(NamedTuple):
    """One dialect's, by what they are for: see `table_port.Table`."""

    create: tuple[str, ...]
    take: tuple[str, ...]
    extend: tuple[str, ...]
    give_back: tuple[str, ...]
    sweep: tuple[str, ...]
    leave: tuple[str, ...]
    read: tuple[str, ...]
    add: tuple[str, ...]
    """A swap where there is no row yet."""
    swap: tuple[str, ...]
    scan: tuple[str, ...]
    beat: tuple[str, ...]
    living: tuple[str, ...]
    prune: tuple[str, ...]
    version: tuple[str, ...]
    take_alone: tuple[str, ...] = ()
    """What `take` does for an exclusive claim without an owner, where it is worth saying apart."""
    confirm: tuple[str, ...] = ()
    """For a transaction of the program's own; not where the database has no clock for it."""

    @property
    def schema(self) -> str:
        """What an administrator runs where we have no right to make the table."""
        return "\n".join(f"{statement};" for statement in self.create)


_PART = re.compile(r"^-- (\w+|\{\w+\})\n", re.MULTILINE)
_WORD = re.compile(r"\{\w+\}")


@cache
def load(dialect: str, table: str, only: str = "") -> Statements:
    """Those of a dialect, for a table of this name. `only`: a further condition for `take`."""
    package = resources.files(f"locknut.backends.sql.{dialect}")
    text = package.joinpath("statements.sql").read_text("utf-8").replace("{table}", table)
    _, *parts = _PART.split(text)
    found: dict[str, tuple[str, ...]] = {}
    words = {"{only}": only}
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        said = _split(_WORD.sub(lambda word: words.get(word[0], word[0]), part))
        if name.startswith("{"):
            words[name] = said[0]
        else:
            found[name] = said
    return Statements(**found)


def _split(part: str) -> tuple[str, ...]:
    """Without comments and empty lines. No statement of ours has a semicolon inside."""
    lines = [line for line in part.splitlines() if not line.lstrip().startswith("--")]
    return tuple(each.strip() for each in "\n".join(lines).split(";") if each.strip())
