"""The statements of a dialect: `.sql` files, in parts that begin with `-- its name`.

A part may be several statements, which go out together; its answer is that of the first that
returns a row. `{table}` is the table's name. A part whose name is in braces is no statement: it is
what that word stands for in the parts after it. A semicolon ends a statement, but for those inside
a block in a language of the database: EXECUTE BLOCK, up to an END at the beginning of a line.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from locknut.backends.sql.table_options import history_table


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
    take_free: tuple[str, ...] = ()
    """What `take_alone` does where nobody holds or waits and `others` is empty; else nothing."""
    take_known: tuple[str, ...] = ()
    """The same where the row is there."""
    give_back_alone: tuple[str, ...] = ()
    """What `give_back` does where nobody else holds; else nothing."""
    give_back_leaving: tuple[str, ...] = ()
    """The same, and the locks of its session are free as well."""
    give_back_ringing: tuple[str, ...] = ()
    """What `give_back` does, and the claim's bell is free as well."""
    confirm: tuple[str, ...] = ()
    """For a transaction of the program's own; not where the database has no clock for it."""


class HistoryStatements(NamedTuple):
    """One dialect's about events, by what they are for: see `history_table.HistoryTable`."""

    create: tuple[str, ...]
    add: tuple[str, ...]
    look: tuple[str, ...]
    drop: tuple[str, ...]
    read: tuple[str, ...]


_PART = re.compile(r"^-- (\w+|\{\w+\})\n", re.MULTILINE)
_WORD = re.compile(r"\{\w+\}")
_STATEMENT = re.compile(
    r"\s*(EXECUTE BLOCK\b.*?^END\b|[^;\s][^;]*?)\s*(?:;|\Z)", re.MULTILINE | re.DOTALL
)


@cache
def load(dialect: str, table: str, only: str = "") -> Statements:
    """Those of a dialect, for a table of this name. `only`: a further condition for `take`."""
    return read(_text(dialect, "statements.sql"), table, only)


def read(text: str, table: str, only: str = "") -> Statements:
    """Those of a dialect that is somebody else's, as the text of its file."""
    return Statements(**_parts(text, table, only))


@cache
def load_history(dialect: str, table: str) -> HistoryStatements:
    """The same about the history of a table of locks of this name."""
    return HistoryStatements(**_parts(_text(dialect, "history.sql"), history_table(table)))


def schema(dialect: str, table: str) -> str:
    """What an administrator runs where we have no right to make the tables."""
    own, further = load(dialect, table).create, load_history(dialect, table).create
    return "\n".join(
        [*(f"{each};" for each in own), "-- For history= alone:", *(f"{each};" for each in further)]
    )


def _text(dialect: str, file: str) -> str:
    package = resources.files(f"locknut.backends.sql.{dialect}")
    return package.joinpath(file).read_text("utf-8")


def _parts(text: str, table: str, only: str = "") -> dict[str, tuple[str, ...]]:
    _, *parts = _PART.split(text.replace("{table}", table))
    found: dict[str, tuple[str, ...]] = {}
    words = {"{only}": only}
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        said = _without_comments(_WORD.sub(lambda word: words.get(word[0], word[0]), part))
        if name.startswith("{"):
            words[name] = said
        else:
            found[name] = tuple(_STATEMENT.findall(said))
    return found


def _without_comments(part: str) -> str:
    return "\n".join(
        line for line in part.splitlines() if not line.lstrip().startswith("--")
    ).strip()
