"""Who holds and who waits, as the nodes tell, and breaking a hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete, GetChildren, GetData, Sync

from locknut.backends.zookeeper import naming, notes, recipe
from locknut.backends.zookeeper.asking import told
from locknut.backends.zookeeper.naming import Node
from locknut.core.values import Broken, Holder, LockInfo, Mode, Renewal

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


async def break_hold(asker: Asker, key: str, raw: int | None, note: str = "") -> LockInfo | None:
    """Delete the nodes of the holders: a node's name is never given twice, so it is the compare."""
    folder = naming.folder(asker.session.settings.root, key)
    await asker.ask(Sync(folder))
    holders = (await _crowd(asker, folder)).holders
    meant = [each for each in holders if raw is None or each.shown.raw == raw]
    here = asker.session.places
    elsewhere = [each.node.id for each in meant if each.node.id and each.node.id not in here]
    if note and elsewhere:
        await notes.leave(asker, folder, elsewhere, note)
    broken: list[Holder] = []
    for each in meant:
        (answer,) = await asker.ask(Delete(each.path, -1))
        if not isinstance(answer, NoNodeError):
            broken.append(each.shown)
            if each.node.id in here:
                asker.session.tell(each.node.id, Broken(note) if note else Renewal.LOST)
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
    path: str
    shown: Holder
    permits: int | None
    """How many there are, as it says itself; other clients do not."""


class Crowd(NamedTuple):
    """Everybody who holds a key or waits for it, in order."""

    holders: list[Seen]
    waiters: list[Seen]
    permits: int | None


async def _look(asker: Asker, key: str, folder: str) -> LockInfo:
    found = await _crowd(asker, folder)
    holders = tuple(each.shown for each in found.holders)
    waiters = tuple(each.shown._replace(raw=None, since=None) for each in found.waiters)
    return LockInfo(key, holders, waiters, found.permits)


async def _crowd(asker: Asker, folder: str) -> Crowd:
    folders = (folder, f"{folder}/{naming.LOCKS}", f"{folder}/{naming.LEASES}")
    lists = await asker.ask(*(GetChildren(each, None) for each in folders))
    line, queue, leases = [recipe.in_order(naming.listed([each])) for each in lists]
    queue = [each._replace(mode=Mode.PERMIT) for each in queue]
    holding = {node.name for node, holds in zip(line, recipe.holding(line), strict=True) if holds}
    locks = await _seen(asker, folders[0], line)
    waiting = await _seen(asker, folders[1], queue)
    leased = await _seen(asker, folders[2], leases)
    says = [each.permits for each in (*waiting, *leased) if each.permits is not None]
    permits = max(says, default=None)
    in_use = leased[: _in_use(len(leased), permits, waiting)]
    return Crowd(
        [*(each for each in locks if each.node.name in holding), *in_use],
        [*(each for each in locks if each.node.name not in holding), *waiting],
        permits,
    )


def _in_use(leases: int, permits: int | None, waiting: list[Seen]) -> int:
    """Curator's first waiter has a lease already that does not count before there is room for it:
    the last one. Where nobody says how many there are, it is there if Curator's waits at all.
    """
    if permits is not None:
        return min(leases, permits)
    return leases - 1 if waiting else leases


async def _seen(asker: Asker, folder: str, line: Sequence[Node]) -> list[Seen]:
    """Those under this node who are still there."""
    seen: list[Seen] = []
    for start in range(0, len(line), _BATCH):
        batch = [(node, f"{folder}/{node.name}") for node in line[start : start + _BATCH]]
        answers = await asker.ask(*(GetData(path, None) for _, path in batch))
        for (node, path), answer in zip(batch, answers, strict=True):
            if isinstance(answer, tuple):
                facts = told(answer[0])
                says = facts.get("permits")
                permits = says if isinstance(says, int) else None
                seen.append(Seen(node, path, _shown(node.mode, facts, answer), permits))
    return seen


def _shown(mode: Mode, facts: dict[str, Any], answer: tuple[bytes, Any]) -> Holder:
    data, stat = answer
    pid = facts.get("pid")
    return Holder(
        host=str(facts.get("host") or ""),
        pid=pid if isinstance(pid, int) else None,
        who=str(facts.get("who") or ""),
        label=str(facts.get("label") or ""),
        mode=mode,
        raw=raw_of(data, stat),
        since=stat.ctime / 1000,
        owner=facts.get("owner"),
    )
