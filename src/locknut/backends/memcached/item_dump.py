"""All locks of a namespace: the server has no list of ours, so every item of it is listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from locknut.backends.memcached import recipe
from locknut.backends.memcached.item_keys import dumped, may_begin
from locknut.core.values import LockInfo
from locknut.drivers.memcached.replies import BADCLASS, BUSY, Reply
from locknut.drivers.memcached.server_identity import Greeted
from locknut.errors import BackendUnavailable

AT_ONCE: Final = 100
"""Items that are looked at in one round trip."""
_BY_TABLE: Final = b"lru_crawler metadump hash\r\n"
_BY_AGE: Final = b"lru_crawler metadump all\r\n"
"""The only way of older servers. They keep items in lists by their age, and move those that are
looked at often, as a lock is for which others wait: it may be missed."""


class DumpingServer(Protocol):
    """What is needed of a server."""

    async def ask(self, packed: Sequence[bytes]) -> tuple[list[Reply], Greeted]: ...

    async def ask_list(self, packed: bytes) -> list[Reply]: ...


async def held(server: DumpingServer, prefix: str) -> list[LockInfo]:
    """Those whose name begins so."""
    lines = await server.ask_list(_BY_TABLE)
    if lines[-1].code == BADCLASS:
        lines = await server.ask_list(_BY_AGE)
    if lines[-1].code == BUSY:
        message = "the memcached goes through its items already; try again"
        raise BackendUnavailable(message, backend="memcached")
    every = [dumped(line.code) for line in lines if line.code[:4] == b"key="]
    keys = [key for key in every if may_begin(key, prefix)]
    found: list[LockInfo] = []
    for start in range(0, len(keys), AT_ONCE):
        looks = [recipe.look(key) for key in keys[start : start + AT_ONCE]]
        replies, greeted = await server.ask(looks)
        found += [
            LockInfo(item.name, (item.holder(greeted),))
            for item in map(recipe.read, replies)
            if item is not None and item.name and item.name.startswith(prefix)
        ]
    return found
