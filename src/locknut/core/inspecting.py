"""Who holds a lock and who waits for it, as the engine sees it: of one name, or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from locknut.core import callers, forking
from locknut.core.values import LockInfo

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.history_entries import HistoryEntry

Named = TypeVar("Named", "LockInfo", "HistoryEntry")


async def info(client: Client, name: str) -> LockInfo:
    """Who holds this name and who waits for it, now."""
    client = forking.here(client)
    client.ensure_open()
    found = await client.runtime.finish(client.backend.inspect(client.prefix + name))
    return callers.shown(found[0])._replace(name=name) if found else LockInfo(name)


async def listing(client: Client, pattern: str | None) -> list[LockInfo]:
    """Every name of this namespace that is held or waited for."""
    client = forking.here(client)
    client.ensure_open()
    found = await client.runtime.finish(client.backend.inspect_all(client.prefix))
    ours = [
        callers.shown(each)._replace(name=client.bare(each.name))
        for each in found
        if each.name.startswith(client.prefix)
    ]
    return sorted(matching(ours, pattern), key=lambda each: each.name)


def matching(found: list[Named], pattern: str | None) -> list[Named]:
    """Those whose name matches "order:*"; all without a pattern."""
    if pattern is None:
        return found
    from fnmatch import fnmatchcase  # only here: few programs list locks

    return [each for each in found if fnmatchcase(each.name, pattern)]
