"""A command that people can copy from a message into their shell, whatever others named a lock."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from locknut.cli.opening import namespace_of
from locknut.connect import parse

if TYPE_CHECKING:
    from locknut.cli.arguments import Options

_AS_IT_IS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _./:@%+=,-")
_NO_SECRET = frozenset({"id", "layout", "namespace", "network"})
"""Options of a URL that may be shown."""


def break_command(name: str, fence: int, options: Options) -> str:
    """What breaks this hold, at the engine and in the namespace that were asked."""
    words = ["locknut", "break", typed(name), "--fence", str(fence)]
    if options.url is not None and "url" not in options.from_environment:
        words += ["-u", typed(_shown(options.url))]
    if namespace := namespace_of(options):
        words += ["--namespace", typed(namespace)]
    return " ".join(words)


def typed(text: str) -> str:
    """The text as a shell takes it, on one line and with nothing that a terminal would obey.

    What cannot be shown is written in octal, byte by byte, between the quotes of bash, ksh and zsh:
    that way it means the same in every locale.
    """
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_octal, text.encode())) + "'"


def _octal(byte: int) -> str:
    return chr(byte) if byte in _AS_IT_IS else f"\\{byte:03o}"


def _shown(url: str) -> str:
    """The URL; one that may carry a password is left for the reader to write."""
    parts = parse(url)
    return url if "@" not in parts.netloc and parts.options.keys() <= _NO_SECRET else "URL"
