"""Who holds a lock and who waits for it, as the nodes tell; breaking a hold, and the note about it.

The note says who broke a lock and why. It is the data of the lock's own node: everything under that
node stands in line, for other clients too, so nothing is added there. The data of that node is
empty otherwise. If somebody else has written to it, we leave it alone and there is no note. The
note goes with the node, which the server removes once nobody stands under it. A holder that has
read the note crosses itself out, and the next break writes over it.

A holder asks for the note with every renewal, not only once it knows of a loss. The note is written
before the hold is deleted, so the answer that tells of the loss has the note too, and nobody has to
wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete, GetChildren, GetData, SetData, Sync

from locknut.backends.zookeeper import node_names, recipe
from locknut.backends.zookeeper.node_names import Node
from locknut.backends.zookeeper.requests import facts_in
from locknut.core.values import Broken, Claim, Holder, LockInfo, Mode, Renewal, Renewed
from locknut.errors import BackendError

if TYPE_CHECKING:
    from locknut.backends.zookeeper.requests import Asker

_BATCH = 500
_MARK: Final = "locknut_broken"
_MOST: Final = 100
"""Holders that one note names."""


def raw_of(data: bytes | None, stat: Any) -> int:
    """The number of a grant: its node's creation, or that of the node it took the place of."""
    known = facts_in(data).get("raw")
    return int(known) if isinstance(known, int) else int(stat.czxid)


async def inspect(asker: Asker, key: str) -> list[LockInfo]:
    folder = node_names.folder(asker.session.settings.root, key)
    await asker.ask(Sync(folder))
    return await _infos(asker, {key: folder})


async def inspect_all(asker: Asker, namespace: str | None) -> list[LockInfo]:
    return await _infos(asker, await _all_keys(asker, namespace))


async def _infos(asker: Asker, keys: dict[str, str]) -> list[LockInfo]:
    found = [await _info(asker, each, folder) for each, folder in keys.items()]
    return [each for each in found if each.holders or each.waiters]


async def break_hold(asker: Asker, key: str, raw: int | None, note: str = "") -> LockInfo | None:
    """Delete the nodes of the holders: a node's name is never given twice, so it is the compare."""
    folder = node_names.folder(asker.session.settings.root, key)
    await asker.ask(Sync(folder))
    holders = (await _contenders(asker, folder)).holders
    meant = [each for each in holders if raw is None or each.shown.raw == raw]
    here = asker.session.states
    elsewhere = [each.node.id for each in meant if each.node.id and each.node.id not in here]
    if note and elsewhere:
        await leave_note(asker, folder, elsewhere, note)
    broken: list[Holder] = []
    for each in meant:
        (answer,) = await asker.ask(Delete(each.path, -1))
        if not isinstance(answer, NoNodeError):
            broken.append(each.shown)
            if each.node.id in here:
                asker.session.notify(each.node.id, Broken(note) if note else Renewal.LOST)
    return LockInfo(key, tuple(broken)) if broken else None


async def _all_keys(asker: Asker, namespace: str | None) -> dict[str, str]:
    """The nodes of all locks of a namespace, or of all namespaces under the root, by key. Nodes of
    other programs look like unused locks, and so do those that we may not see.
    """
    root = asker.session.settings.root
    _, namespaces = await asker.answers([Sync(root or "/"), GetChildren(root or "/", None)])
    if namespace is not None:
        namespaces = [node_names.space(root, namespace)]
    elif not isinstance(namespaces, list):
        return {}
    spaces = [each for each in namespaces if root or each != "zookeeper"]
    keys: dict[str, str] = {}
    for start in range(0, len(spaces), _BATCH):
        batch = spaces[start : start + _BATCH]
        lists = await asker.answers([GetChildren(f"{root}/{each}", None) for each in batch])
        for space, names in zip(batch, lists, strict=True):
            for name in names if isinstance(names, list) else ():
                keys[node_names.key_of(space, name)] = f"{root}/{space}/{name}"
    return {key: keys[key] for key in await _used(asker, keys)}


async def _used(asker: Asker, keys: dict[str, str]) -> list[str]:
    """The keys under whose nodes anybody stands; the server removes empty nodes after a while."""
    used: list[str] = []
    names = list(keys)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        lists = await asker.answers([GetChildren(keys[each], None) for each in batch])
        used += [
            key for key, each in zip(batch, lists, strict=True) if each and isinstance(each, list)
        ]
    return used


class Contender(NamedTuple):
    """Somebody under a lock's node."""

    node: Node
    path: str
    shown: Holder
    permits: int | None
    """How many permits the semaphore has, as our own nodes say; those of other clients do not."""


class Contenders(NamedTuple):
    """Everybody who holds a key or waits for it, in order."""

    holders: list[Contender]
    waiters: list[Contender]
    permits: int | None


async def _info(asker: Asker, key: str, folder: str) -> LockInfo:
    found = await _contenders(asker, folder)
    holders = tuple(each.shown for each in found.holders)
    waiters = tuple(each.shown._replace(raw=None, since=None) for each in found.waiters)
    return LockInfo(key, holders, waiters, found.permits)


async def _contenders(asker: Asker, folder: str) -> Contenders:
    folders = (folder, f"{folder}/{node_names.LOCKS}", f"{folder}/{node_names.LEASES}")
    lists = await asker.ask(*(GetChildren(each, None) for each in folders))
    line, queue, leases = [recipe.in_order(node_names.listed([each])) for each in lists]
    queue = [each._replace(mode=Mode.PERMIT) for each in queue]
    holding = {node.name for node, holds in zip(line, recipe.holding(line), strict=True) if holds}
    locks = await _read_nodes(asker, folders[0], line)
    waiting = await _read_nodes(asker, folders[1], queue)
    leased = await _read_nodes(asker, folders[2], leases)
    says = [each.permits for each in (*waiting, *leased) if each.permits is not None]
    permits = max(says, default=None)
    in_use = leased[: _in_use(len(leased), permits, waiting)]
    return Contenders(
        [*(each for each in locks if each.node.name in holding), *in_use],
        [*(each for each in locks if each.node.name not in holding), *waiting],
        permits,
    )


def _in_use(leases: int, permits: int | None, waiting: list[Contender]) -> int:
    """How many of the leases are held. Curator's first waiter already has a lease, the last one,
    which does not count before there is room for it. Where no node says how many permits there are,
    we take that lease to be there if anybody waits.
    """
    if permits is not None:
        return min(leases, permits)
    return leases - 1 if waiting else leases


async def _read_nodes(asker: Asker, folder: str, line: Sequence[Node]) -> list[Contender]:
    """Read these nodes, and leave out those that have gone meanwhile."""
    seen: list[Contender] = []
    for start in range(0, len(line), _BATCH):
        batch = [(node, f"{folder}/{node.name}") for node in line[start : start + _BATCH]]
        answers = await asker.ask(*(GetData(path, None) for _, path in batch))
        for (node, path), answer in zip(batch, answers, strict=True):
            if isinstance(answer, tuple):
                facts = facts_in(answer[0])
                says = facts.get("permits")
                permits = says if isinstance(says, int) else None
                seen.append(Contender(node, path, _shown(node.mode, facts, answer), permits))
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


async def leave_note(asker: Asker, folder: str, ids: Sequence[str], note: str) -> None:
    """Write the note, before these claims lose their nodes. A break does not depend on it."""
    with suppress(BackendError):
        (found,) = await asker.answers([GetData(folder, None)])
        if isinstance(found, tuple) and (not found[0] or _unpack_note(found[0]) is not None):
            written = _pack_note(list(ids)[:_MOST], note)
            await asker.answers([SetData(folder, written, found[1].version)])


def note_folders(asker: Asker, claims: Sequence[Claim]) -> list[str]:
    """Where the notes for these would be, each folder once."""
    root = asker.session.settings.root
    return list(dict.fromkeys(node_names.folder(root, claim.key) for claim in claims))


def add_notes(
    asker: Asker, claims: Sequence[Claim], answers: list[Renewed], found: dict[str, Any]
) -> None:
    """Put the note into the answers where a loss is known and the folder has one."""
    root = asker.session.settings.root
    lost: dict[str, dict[str, int]] = {}
    for at, (claim, answer) in enumerate(zip(claims, answers, strict=True)):
        if answer is Renewal.LOST:
            lost.setdefault(node_names.folder(root, claim.key), {})[claim.id] = at
    for folder, named in lost.items():
        read = _unpack_note(found[folder][0]) if isinstance(found[folder], tuple) else None
        if read is not None:
            ids, note = read
            for claim_id in named.keys() & set(ids):
                answers[named[claim_id]] = Broken(note)
            left = [each for each in ids if each not in named]
            if len(left) < len(ids):  # nobody waits for this: a note that stays harms nobody
                written = _pack_note(left, note) if left else b""
                asker.session.post(SetData(folder, written, found[folder][1].version))


def _pack_note(ids: list[str], note: str) -> bytes:
    return json.dumps({_MARK: ids, "note": note}, separators=(",", ":")).encode()


def _unpack_note(data: bytes | None) -> tuple[list[str], str] | None:
    """Whom the note is for, and what it says; None if this is not a note of ours."""
    try:
        facts = json.loads((data or b"").decode())
        return [str(each) for each in facts[_MARK]], str(facts["note"])
    except (ValueError, KeyError, TypeError):
        return None
