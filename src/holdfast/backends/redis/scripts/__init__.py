"""The verbs as Lua, one file each, put together and known by their SHA1."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

_INCLUDE = "-- include settle\n"


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


def _load(verb: str) -> Script:
    folder = files(__name__)
    shared = (folder / "settle.lua").read_text("utf-8")
    return script((folder / f"{verb}.lua").read_text("utf-8").replace(_INCLUDE, shared))


ACQUIRE = _load("acquire")
RELEASE = _load("release")
RENEW = _load("renew")
DOWNGRADE = _load("downgrade")
ADOPT = _load("adopt")
INSPECT = _load("inspect")
GATHER = _load("gather")
