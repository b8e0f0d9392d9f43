"""What others wrote, as it may be shown: on one line, without anything that a terminal would obey.

Names, labels, hosts and reasons are texts that anybody may have chosen. They go into messages,
errors, logs and tables, and from there to somebody's terminal.
"""

from __future__ import annotations


def plain(text: str) -> str:
    """The text, with what cannot be printed written as in the source of a program."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()
