"""Arguments as they stand in a statement: numbers, and everything else in hexadecimal digits.

Nothing is ever quoted, so that no setting of the server (NO_BACKSLASH_ESCAPES, ANSI_QUOTES, a
character set) can make another text of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, TypeVar

from locknut.backends.sql.statements import HistoryStatements, Statements

Said = TypeVar("Said", Statements, HistoryStatements)

CLOCK: Final = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
"""Microseconds since the epoch when the statement began, whatever the time zone."""
DAY: Final = 86_400_000_000
IDLE: Final = (
    "line = '' AND others < LPAD({now}, 16, '0') AND (holders = '' OR expires <= {now})"
    " AND (name < 'd' AND expires < {now}"
    f" OR name >= 'd' AND fence * 32 < {{now}} - {DAY} AND expires < {{now}} - {DAY})"
)
"""Nobody holds, nobody waits, and the next number will be greater; or a client's note (c) that has
run out."""
_PARAMETER: Final = re.compile(r":(\w+)")


def completed(statements: Said) -> Said:
    """With the words of this dialect."""
    return type(statements)(
        *(
            tuple(each.replace("{idle}", IDLE).replace("{now}", CLOCK) for each in part)
            for part in statements
        )
    )


@cache
def _pieces(statement: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The text between parameters, and their names."""
    pieces = _PARAMETER.split(statement)
    return tuple(pieces[::2]), tuple(pieces[1::2])


def bound(statement: str, arguments: Mapping[str, object]) -> str:
    """The statement with its arguments in it."""
    texts, names = _pieces(statement)
    if not names:
        return statement
    arguments = _with_words(names, arguments)
    written = {name: literal(arguments[name]) for name in set(names)}
    parts = [texts[0]]
    for name, text in zip(names, texts[1:], strict=True):
        parts += written[name], text
    return "".join(parts)


@cache
def parameters(statement: str) -> str:
    """The statement with a mark in place of each argument: the server keeps it like this."""
    return "?".join(_pieces(statement)[0])


def values_of(statement: str, arguments: Mapping[str, object]) -> list[int | bytes]:
    """What stands for the marks: numbers, and everything else as bytes, as in the text."""
    _, names = _pieces(statement)
    arguments = _with_words(names, arguments)
    values = [arguments[name] for name in names]
    return [each.encode("ascii") if isinstance(each, str) else each for each in values]  # type: ignore[misc]


def _with_words(names: tuple[str, ...], arguments: Mapping[str, object]) -> Mapping[str, object]:
    """With what is shorter than to have the server put it together at each mention."""
    if "head" not in names and "own" not in names:
        return arguments
    own = f"{arguments['claim_id']} "
    return {**arguments, "head": f"\n{own}", "own": own, "width": len(own)}


def literal(value: object) -> str:
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        value = value.encode("ascii")
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, list):
        return ", ".join(map(literal, value))
    raise TypeError(f"no literal for a {type(value).__name__}")
