"""The verbs of the foreign layouts as Lua: the same files for each, with the layout's part in."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

from locknut.drivers.redis.lua_scripts import Script, script

_INCLUDE = "-- include claims\n"


class Scripts(NamedTuple):
    """The verbs of one layout."""

    acquire: Script
    release: Script
    renew: Script
    attach: Script
    inspect: Script


def load(layout: str) -> Scripts:
    folder = files(__name__)
    parts = ("keys", layout, "claims")
    shared = "".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)

    def verb(name: str) -> Script:
        return script((folder / f"{name}.lua").read_text("utf-8").replace(_INCLUDE, shared))

    return Scripts(*(verb(name) for name in Scripts._fields))
