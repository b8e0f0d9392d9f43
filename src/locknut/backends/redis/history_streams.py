"""History as streams of Redis: what is sent to write and to read one, and what the answer means.

A stream is one key, `locknut:history:troubles`, and so in one slot of a cluster. It has no braces,
so no lock has a key of this name, and listing locks passes it over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from locknut.backends.redis.scripts import RECALL, REMEMBER
from locknut.backends.redis.server_port import Server
from locknut.core.values import History
from locknut.drivers.redis import wire
from locknut.drivers.redis.lua_scripts import Script


async def write(server: Server, stream: str, texts: Sequence[str], keep: int) -> None:
    words = [text.encode(errors="replace") for text in texts]
    await server.ask(REMEMBER, _packed(REMEMBER, stream, b"%d" % keep, *words))


async def read(server: Server, stream: str, back: float | None) -> History:
    since = b"" if back is None else b"%d" % math.ceil(back * 1000)
    now, found = await server.ask(RECALL, _packed(RECALL, stream, since))
    return History(int(now) / 1000, [_text(*each) for each in found])


def _packed(script: Script, stream: str, *arguments: bytes) -> bytes:
    return wire.pack(b"EVALSHA", script.sha, b"1", stream.encode(), *arguments)


def _text(name: bytes, fields: Sequence[Any]) -> tuple[float, str]:
    """An entry is called `1794944249472-0`: milliseconds since the epoch, and a number."""
    return int(name.partition(b"-")[0]) / 1000, fields[1].decode(errors="replace")
