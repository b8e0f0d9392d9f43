"""What a guarded step sends, and what the answer means: the same for both colours.

The check and the step are one script, so nobody can enter between them. The record of the newest
fence lives beside the data, in the same hash slot, and is never given an expiry: a holder may sleep
for as long as it likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from locknut.errors import ConfigurationError, NotHeld
from locknut.guards.fences import forgotten, stale

Word = str | bytes | int | float
Command = Sequence[Word]
_OWN: Final = 128
"""How many of the user's scripts are remembered: some write values into their text."""


class Script(NamedTuple):
    """What the server runs, and how it knows it."""

    text: str
    sha: str


class Step(NamedTuple):
    """One script with everything it needs."""

    script: Script
    keys: tuple[Word, ...]
    words: tuple[Word, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """As EVAL and EVALSHA want them, behind the script."""
        return (len(self.keys), *self.keys, *self.words)


def record_of(key: str) -> str:
    """Where the newest fence is kept: in the slot of `key`, by the rule of the cluster."""
    _, brace, rest = key.partition("{")
    tag, end, _ = rest.partition("}")
    tagged = bool(brace and tag and end)
    return f"{key}:guard" if tagged else f"{{{key}}}:guard"


def resource(key: str) -> str:
    if not isinstance(key, str) or not key:
        raise ConfigurationError(f"key={key!r}: name what is guarded, by its key in Redis")
    if "}" in key and record_of(key).startswith("{"):
        message = f"key={key!r}: a key with braces needs a hash tag in them, like 'stock:{{7}}'"
        raise ConfigurationError(message)
    return key


def enter(record: str, fence: int) -> Step:
    return Step(_commands(), (record,), (fence, "enter"))


def commands(record: str, fence: int | None, wanted: Sequence[Command]) -> Step:
    words: list[Word] = []
    for each in wanted:
        if isinstance(each, str | bytes) or not each:
            raise ConfigurationError(f"a command is its words, like ('SET', key, value): {each!r}")
        words += [len(each), *each]
    return Step(_commands(), (record,), (entered(fence, record), "step", *words))


def own(
    record: str, fence: int | None, text: str, keys: Sequence[Word], words: Sequence[Word]
) -> Step:
    """The user's own Lua: it gets the KEYS and ARGV as given, and runs only if admitted."""
    if text.lstrip().startswith("#!"):
        raise ConfigurationError("give the script without its first line (#!lua ...)")
    return Step(_own(text), (record, *keys), (entered(fence, record), "step", *words))


def entered(fence: int | None, record: str) -> int:
    if fence is None:
        raise NotHeld(f"call enter(lease) before the first read or write of what {record} guards")
    return fence


def admitted(fence: int, record: str, answer: Any) -> list[Any]:
    """The answers of the commands; raises if the step was refused, or its script said no."""
    found: list[Any] = answer[1:]
    if int(answer[0]):
        for each in found:
            if isinstance(each, Exception):
                raise each
        return found
    newest = int(found[0])
    if newest > fence:
        raise stale(fence, newest, record.removesuffix(":guard"))
    raise forgotten(fence, newest, record, "FLUSHALL, an eviction, a failover")


def unscripted(error: Exception) -> bool:
    """Whether the server does not know the script (any more)."""
    return type(error).__name__ == "NoScriptError" or str(error).startswith("NOSCRIPT")


def _script(text: str) -> Script:
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def _admit() -> str:
    return (files(__package__) / "admit.lua").read_text("utf-8")


@cache
def _commands() -> Script:
    return _script(_admit() + (files(__package__) / "commands.lua").read_text("utf-8"))


@lru_cache(maxsize=_OWN)
def _own(text: str) -> Script:
    """Inside a function, so that its `return` and its locals are its own."""
    shifted = "({unpack(KEYS, 2)}, {unpack(ARGV, 3)})"
    return _script(f"{_admit()}\nreturn {{1, (function(KEYS, ARGV)\n{text}\nend){shifted}}}\n")
