"""What the URL of every SQL engine may say: which table, and how long one command may take."""

from __future__ import annotations

import re
import zlib
from typing import Final

from locknut.core import validation
from locknut.errors import ConfigurationError

TABLE: Final = "locknut_locks"
LIMIT: Final = 2.0
"""Seconds after which a command counts as unanswered."""
OPTIONS: Final = ("table", "timeout")
SERVER_OPTIONS: Final = (*OPTIONS, "mode")
"""Of a database that has sessions."""
MODES: Final = ("lease", "session")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
"""A plain identifier, of a length that every database takes: it is still quoted where it is used,
because it may be a word of SQL."""


def table_name(scheme: str, options: dict[str, str]) -> str:
    """The table of locks; a plain name, because it becomes a part of statements."""
    name = options.get("table", TABLE)
    if not _NAME.fullmatch(name):
        message = f"table={name!r}: a table's name has letters, digits and _, at most 63 of them"
        raise ConfigurationError(message, backend=scheme)
    return name


def history_table(table: str) -> str:
    """The table of its history, quoted as the table of locks is. No database takes a name of any
    length, and PostgreSQL would cut it to that of the locks.
    """
    name = table.strip('"`')
    kept = name if len(name) <= 55 else f"{name[:46]}_{zlib.crc32(name.encode()):08x}"
    return table.replace(name, f"{kept}_history")


def mode(scheme: str, options: dict[str, str]) -> str:
    """Whether a hold ends by its ttl alone, or with a session of the database, too."""
    found = options.get("mode", MODES[0])
    if found not in MODES:
        message = f"mode must be {' or '.join(MODES)}; got {found!r}"
        raise ConfigurationError(message, backend=scheme)
    return found


def limit(scheme: str, options: dict[str, str], default: float = LIMIT) -> float:
    """A time limit that is neither too short for an answer nor as good as none."""
    text = options.get("timeout")
    found = default if text is None else validation.seconds(text, "timeout")
    if not 0.05 <= found <= 3600:
        raise ConfigurationError("timeout must be between 50 ms and 1 h", backend=scheme)
    return found
