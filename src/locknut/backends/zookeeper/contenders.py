"""Who holds a lock and who waits for it, as the nodes tell, and breaking a hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import Delete, GetChildren, GetData, Sync

from locknut.backends.zookeeper import node_names, notes, recipe
from locknut.backends.zookeeper.node_names import Node
from locknut.backends.zookeeper.requests import facts_in
from locknut.core.values import Broken, Holder, LockInfo, Mode, Renewal

if TYPE_CHECKING:
    from locknut.backends.zookeeper.requests import Asker

BATCH: Final = 100
"""Locks that are looked at together. Others are served in between, and what is said of a lock was
true within two waits for so many."""
_AT_ONCE: Final = 500
"""Requests that are sent together. The servers' limit for a message (`jute.maxbuffer`) is one for
each request and answer, so it says nothing about how many."""
UNREADABLE: Final = "another user's, not readable"
_PARTS: Final = frozenset({node_names.LOCKS, node_names.LEASES})


def raw_of(data: bytes | None, stat: Any) -> int:
    """The number of a grant: its node's creation, or that of the node it took the place of."""
    known = facts_in(data).get("raw")
    return int(known) if isinstance(known, int) else int(stat.czxid)


async def inspect(asker: Asker, key: str) -> list[LockInfo]:
    folder = node_names.folder(asker.session.settings.root, key)
    return await _infos(asker, {key: await _standing(asker, folder)})


async def inspect_all(asker: Asker, namespace: str | None) -> list[LockInfo]:
    """Many locks are looked at together: looking at one after the other would wait for the servers
    twice for each, and they would be woken for each.
    """
    keys = list((await _all_keys(asker, namespace)).items())
    found: list[LockInfo] = []
    for start in range(0, len(keys), BATCH):
        found += await _infos(asker, await _used(asker, dict(keys[start : start + BATCH])))
    return found


async def _infos(asker: Asker, places: Mapping[str, Standing]) -> list[LockInfo]:
    seen = await _contenders(asker, list(places.values()))
    found = [_info(key, each) for key, each in zip(places, seen, strict=True)]
    return [each for each in found if each.holders or each.waiters]


async def break_hold(asker: Asker, key: str, raw: int | None, note: str = "") -> LockInfo | None:
    """Delete the nodes of the holders: a node's name is never given twice, so it is the compare."""
    folder = node_names.folder(asker.session.settings.root, key)
    (found,) = await _contenders(asker, [await _standing(asker, folder)])
    holders = found.holders
    meant = [each for each in holders if raw is None or each.shown.raw == raw]
    here = asker.session.states
    elsewhere = [each.node.id for each in meant if each.node.id and each.node.id not in here]
    if note and elsewhere:
        await notes.leave(asker, folder, elsewhere, note)
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
    for start in range(0, len(spaces), _AT_ONCE):
        batch = spaces[start : start + _AT_ONCE]
        lists = await asker.answers([GetChildren(f"{root}/{each}", None) for each in batch])
        for space, names in zip(batch, lists, strict=True):
            for name in names if isinstance(names, list) else ():
                keys[node_names.key_of(space, name)] = f"{root}/{space}/{name}"
    return keys


class Standing(NamedTuple):
    """Who stands under a lock's node, in order, as far as names tell."""

    folder: str
    line: list[Node]
    queue: list[Node]
    """Those who wait for a permit of the semaphore of this name ..."""
    leases: list[Node]
    """... and those who have one."""

    @property
    def parts(self) -> Sequence[tuple[str, list[Node]]]:
        """Each with the node that they stand under."""
        return list(zip(_folders(self.folder), (self.line, self.queue, self.leases), strict=True))


def _folders(folder: str) -> tuple[str, str, str]:
    return folder, f"{folder}/{node_names.LOCKS}", f"{folder}/{node_names.LEASES}"


def _stand(folder: str, lists: Sequence[Any]) -> Standing:
    """As these lists of children say; what is not there has nobody under it."""
    line, queue, leases = [recipe.in_order(node_names.listed([each])) for each in lists]
    return Standing(folder, line, [each._replace(mode=Mode.PERMIT) for each in queue], leases)


async def _standing(asker: Asker, folder: str) -> Standing:
    """Of one lock, in one wait."""
    lists = [GetChildren(each, None) for each in _folders(folder)]
    _, *found = await asker.ask(Sync(folder), *lists)
    return _stand(folder, found)


async def _used(asker: Asker, keys: Mapping[str, str]) -> dict[str, Standing]:
    """The same of many, without those where nobody stands: the server removes them after a while.

    A semaphore is looked for only where a part of it is. Then both parts are asked for, waiters
    first: one that goes on to the leases meanwhile, which it may be the first to do, is not missed.
    """
    lists = await asker.answers([GetChildren(each, None) for each in keys.values()])
    used = {key: names for key, names in zip(keys, lists, strict=True) if _anybody(names)}
    semaphores = [key for key, names in used.items() if not _PARTS.isdisjoint(names)]
    asked = [GetChildren(each, None) for key in semaphores for each in _folders(keys[key])[1:]]
    answers = iter(await _in_batches(asker, asked))
    parts = {key: (next(answers), next(answers)) for key in semaphores}
    return {
        key: _stand(keys[key], (names, *parts.get(key, (None, None))))
        for key, names in used.items()
    }


def _anybody(answer: Any) -> bool:
    return isinstance(answer, list) and bool(answer)


async def _in_batches(asker: Asker, requests: Sequence[Any]) -> list[Any]:
    """What another user keeps to itself is refused, and stands among the answers: the other locks
    can be looked at all the same.
    """
    answers: list[Any] = []
    for start in range(0, len(requests), _AT_ONCE):
        answers += await asker.answers(requests[start : start + _AT_ONCE])
    return answers


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


def _info(key: str, found: Contenders) -> LockInfo:
    holders = tuple(each.shown for each in found.holders)
    waiters = tuple(each.shown._replace(raw=None, since=None) for each in found.waiters)
    return LockInfo(key, holders, waiters, found.permits)


async def _contenders(asker: Asker, places: Sequence[Standing]) -> list[Contenders]:
    """Read what all their nodes say. Those that have gone meanwhile are left out, and of those that
    we may not read there is only the name.
    """
    asked = [
        GetData(f"{folder}/{node.name}", None)
        for place in places
        for folder, nodes in place.parts
        for node in nodes
    ]
    answers = iter(await _in_batches(asker, asked))
    return [_sorted(place, answers) for place in places]


def _sorted(place: Standing, answers: Iterator[Any]) -> Contenders:
    line = place.line
    holding = {node.name for node, holds in zip(line, recipe.holding(line), strict=True) if holds}
    locks, waiting, leased = [_read(folder, nodes, answers) for folder, nodes in place.parts]
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


def _read(folder: str, nodes: Sequence[Node], answers: Iterator[Any]) -> list[Contender]:
    """Take so many of the answers, and leave out the nodes that have gone meanwhile."""
    seen: list[Contender] = []
    for node in nodes:
        answer = next(answers)
        if isinstance(answer, NoAuthError):
            shown = Holder(label=UNREADABLE, mode=node.mode)
            seen.append(Contender(node, f"{folder}/{node.name}", shown, None))
        if isinstance(answer, tuple):
            facts = facts_in(answer[0])
            says = facts.get("permits")
            permits = says if isinstance(says, int) else None
            shown = _shown(node.mode, facts, answer)
            seen.append(Contender(node, f"{folder}/{node.name}", shown, permits))
    return seen


def _shown(mode: Mode, facts: dict[str, Any], answer: tuple[bytes, Any]) -> Holder:
    data, stat = answer
    pid, owner = facts.get("pid"), facts.get("owner")
    return Holder(
        host=str(facts.get("host") or ""),
        pid=pid if isinstance(pid, int) else None,
        who=str(facts.get("who") or ""),
        label=str(facts.get("label") or ""),
        mode=mode,
        raw=raw_of(data, stat),
        since=stat.ctime / 1000,
        owner=owner if isinstance(owner, str) else None,
    )
