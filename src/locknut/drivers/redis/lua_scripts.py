"""Lua scripts as a server knows them: put together from files, and called by their SHA1."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

_INCLUDE = re.compile(r"^-- include (\w+)\n", re.MULTILINE)


class Script(NamedTuple):
    """One verb, as the server knows it."""

    text: bytes
    sha: bytes


_known: dict[str, Script] = {}


def script(text: str) -> Script:
    """What the server will know by its SHA1, and we too."""
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    made = _known[sha] = Script(text.encode(), sha.encode())
    return made


def called_at(sha: str, line: int) -> str:
    """Which command a script of ours calls in this line: some servers tell no more of a denial."""
    known = _known.get(sha)
    here = "" if known is None else known.text.decode().splitlines()[line - 1]
    return " or +".join(re.findall(r"redis\.p?call\('(\w+)'", here)) or "?"


def load(folder: str, verb: str) -> Script:
    """The script of a verb; what it includes stands beside it."""

    def part(name: str) -> str:
        text = (files(folder) / f"{name}.lua").read_text("utf-8")
        return _INCLUDE.sub(lambda found: part(found[1]), text)

    return script(part(verb))
