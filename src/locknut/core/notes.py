"""The note that the holder of a broken lock gets: one short line that says why, and by whom.

A note is for people. It decides nothing, and an engine may lose it: the hold is lost all the same.
"""

from __future__ import annotations

from typing import Final

from locknut.core.plain_text import plain

MOST: Final = 220
"""Bytes of a note: a line on a screen or two, and what the record of a lock file has room for."""
_MOST_OF_WHOM: Final = 100


def written(reason: str, label: str) -> str:
    """The note of the breaker of a lock; empty if there is nothing to say."""
    by = f"by {_cut(label, _MOST_OF_WHOM)}" if label.strip() else ""
    if not reason.strip():
        return by
    end = f" ({by})" if by else ""
    return _cut(reason, MOST - len(end.encode())) + end


def read(note: str) -> str:
    """The same as its reader may show it: anybody may have written it."""
    return plain(_cut(note, MOST))


def _cut(text: str, most: int) -> str:
    """On one line, in at most `most` bytes."""
    line = " ".join(text.split()).encode("utf-8", "replace")
    if len(line) <= most:
        return line.decode()
    return line[: most - 3].decode("utf-8", "ignore") + "..."
