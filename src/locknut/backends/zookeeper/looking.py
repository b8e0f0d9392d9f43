"""Who holds and who waits, as the nodes tell, and breaking a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete, GetChildren, GetData, Sync

from locknut.backends.zookeeper import naming, recipe
from locknut.backends.zookeeper.asking import told
from locknut.backends.zookeeper.naming import Node
from locknut.core.values import Holder, LockInfo, Renewal

if TYPE_CHECKING:
    from locknut.backends.zookeeper.asking import Asker

_BATCH = 500


def raw_of(data: bytes | None, stat: Any) -> int:
    """The number of a grant: its node's creation, or that of the node it took the place of."""
    known = told(data).get("raw")
    return int(known) if isinstance(known, int) else int(stat.czxid)


async def inspect(asker: Asker, key: str) -> list[LockInfo]:
    folder = naming.folder(asker.session.settings.root, key)
    await asker.ask(Sync(folder))
    return await _looked(asker, {key: folder})


async def inspect_all(asker: Asker, namespace: str | None) -> list[LockInfo]:
    return await _looked(asker, await _all_keys(asker, namespace))


async def _looked(asker: Asker, keys: dict[str, str]) -> list[LockInfo]:
    found = [await _look(asker, each, folder) for each, folder in keys.items()]
    return [each for each in found if each.holders or each.waiters]


async def break_hold(asker: Asker, key: str, raw: int | None) -> LockInfo | None:
    """Delete the nodes of the holders: a node's name is never given twice, so it is the compare."""
    folder = naming.folder(asker.session.settings.root, key)
    await asker.ask(Sync(folder))
    broken: list[Holder] = []
    for place in (folder, f"{folder}/{naming.LEASES}"):
        for node, shown, _, holds in await _line(asker, place):
            if not holds or (raw is not None and shown.raw != raw):
                continue
            (answer,) = await asker.ask(Delete(f"{place}/{node.name}", -1))
            if not isinstance(answer, NoNodeError):
                broken.append(shown)
                if node.id in asker.session.places:
                    asker.session.tell(node.id, Renewal.LOST)
    return LockInfo(key, tuple(broken)) if broken else None


async def _all_keys(asker: Asker, namespace: str | None) -> dict[str, str]:
    """Every lock's node of a namespace, or of all under the root, by its key; others' nodes look
    like empty ones, and so do those that we may not see.
    """
    root = asker.session.settings.root
    _, namespaces = await asker.answers([Sync(root or "/"), GetChildren(root or "/", None)])
    if namespace is not None:
        namespaces = [naming.space(root, namespace)]
    elif not isinstance(namespaces, list):
        return {}
    spaces = [each for each in namespaces if root or each != "zookeeper"]
    keys: dict[str, str] = {}
    for start in range(0, len(spaces), _BATCH):
        batch = spaces[start : start + _BATCH]
        lists = await asker.answers([GetChildren(f"{root}/{each}", None) for each in batch])
        for space, names in zip(batch, lists, strict=True):
            for name in names if isinstance(names, list) else ():
                keys[naming.key_of(space, name)] = f"{root}/{space}/{name}"
    return {key: keys[key] for key in await _used(asker, keys)}


async def _used(asker: Asker, keys: dict[str, str]) -> list[str]:
    """Those under which anybody stands; the server removes empty ones after a while."""
    used: list[str] = []
    names = list(keys)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        lists = await asker.answers([GetChildren(keys[each], None) for each in batch])
        used += [
            key for key, each in zip(batch, lists, strict=True) if each and isinstance(each, list)
        ]
    return used


class Seen(NamedTuple):
    """Somebody under a lock's node."""

    node: Node
    shown: Holder
    permits: int
    holds: bool


async def _look(asker: Asker, key: str, folder: str) -> LockInfo:
    locks = await _line(asker, folder)
    leases = await _line(asker, f"{folder}/{naming.LEASES}")
    seen = [*locks, *leases]
    holders = tuple(each.shown for each in seen if each.holds)
    waiters = tuple(each.shown._replace(raw=None, since=None) for each in seen if not each.holds)
    limit = max((each.permits for each in leases), default=None)
    return LockInfo(key, holders, waiters, limit)


async def _line(asker: Asker, folder: str) -> list[Seen]:
    """Everybody under this node, in order, and whether they hold. Other clients' nodes do not say
    how many permits there are: for them it is the most that anybody says.
    """
    line = recipe.in_order(await asker.line(folder))
    found: list[tuple[Node, tuple[bytes, Any]]] = []
    for start in range(0, len(line), _BATCH):
        batch = line[start : start + _BATCH]
        answers = await asker.ask(*(GetData(f"{folder}/{each.name}", None) for each in batch))
        pairs = zip(batch, answers, strict=True)
        found += [(node, answer) for node, answer in pairs if isinstance(answer, tuple)]
    facts = [told(data) for _, (data, _) in found]
    limits = [each.get("permits") for each in facts]
    most = max((each for each in limits if isinstance(each, int)), default=1)
    seen: list[Seen] = []
    for (node, answer), about, limit in zip(found, facts, limits, strict=True):
        permits = limit if isinstance(limit, int) else most
        holds = recipe.verdict(line, node, permits).mine
        seen.append(Seen(node, _shown(node, about, answer), permits, holds))
    return seen


def _shown(node: Node, facts: dict[str, Any], answer: tuple[bytes, Any]) -> Holder:
    data, stat = answer
    pid = facts.get("pid")
    return Holder(
        host=str(facts.get("host") or ""),
        pid=pid if isinstance(pid, int) else None,
        who=str(facts.get("who") or ""),
        label=str(facts.get("label") or ""),
        mode=node.mode,
        raw=raw_of(data, stat),
        since=stat.ctime / 1000,
        owner=facts.get("owner"),
    )
