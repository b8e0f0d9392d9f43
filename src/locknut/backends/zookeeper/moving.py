"""One node in the place of another, in one step: entering a semaphore, joining an owner,
downgrading, detaching, attaching.

The new node has the number of the old one, as Curator's reader inside a writer has: so it stands
where that stood, and nobody can come in between; but for a lease, which is numbered among leases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetData,
    Transaction,
)

from locknut.backends.zookeeper import driver, looking, naming, recipe
from locknut.backends.zookeeper.asking import told
from locknut.backends.zookeeper.naming import Node
from locknut.core.values import Claim, Mode
from locknut.runtimes.clock import now

if TYPE_CHECKING:
    from locknut.backends.zookeeper.backend import ZooKeeperBackend
    from locknut.backends.zookeeper.places import Place

_TRIES = 10
NEVER = float("inf")


async def enter(asker: ZooKeeperBackend, place: Place) -> bool:
    """From the head of the line to the leases; False if its node is gone from the line.

    Because this is one step, a claim stands in one of the two: a lost answer leaves no other doubt.
    """
    claim, leases = place.claim, place.folders[-1]
    name = naming.prefix(claim.id, "", naming.kind_of(claim, asker.session.settings.layout))
    flags = driver.EPHEMERAL | driver.SEQUENCE
    create = _node(asker, f"{leases}/{name}", asker.shown(claim, raw=place.raw), flags)
    refused = False
    for _ in range(_TRIES):
        place.outcome_unknown = True
        (results,) = await asker.ask(Transaction((Delete(place.path, -1), create)))
        if isinstance(results, Exception):
            raise asker.failed(results)
        asker.refuse(results, NoAuthError)
        left, made = results
        if isinstance(made, str):
            place.stand(made.rpartition("/")[2], place.raw)
            return True
        place.outcome_unknown = False
        if isinstance(left, NoNodeError):
            return False
        if not isinstance(made, NoNodeError):
            raise asker.failed(made)
        refused = await asker.make_folder(leases)
    raise asker.not_made(leases, refused=refused)


async def join_fellow(asker: ZooKeeperBackend, place: Place, mark: str) -> list[Node] | None:
    """Stand beside another claim of the same owner; None if there is none to stand beside."""
    folder = place.folder
    for _ in range(_TRIES):
        fellow = recipe.fellow(await asker.line(folder), mark)
        if fellow is None:
            return None
        beside = f"{folder}/{fellow.name}"
        (found,) = await asker.ask(GetData(beside, None))
        if isinstance(found, NoNodeError):
            continue
        raw = looking.raw_of(*found)
        name = naming.prefix(place.claim.id, mark, fellow.kind) + fellow.number
        place.outcome_unknown = True
        create = _node(asker, f"{folder}/{name}", asker.shown(place.claim, raw=raw))
        if await asker.all_or_nothing(CheckVersion(beside, -1), create):
            place.stand(name, raw)
            return await asker.line(folder)
        place.outcome_unknown = False
    return None


async def downgrade(asker: ZooKeeperBackend, claim: Claim) -> bool:
    """A reader's node in the place of the writer's."""
    place = asker.session.places.get(claim.id)
    if place is None or not asker._holds(place):
        return False
    old, folder = naming.node(place.node), place.folder
    if old is None or old.mode is Mode.SHARED:
        return True
    shared = claim._replace(mode=Mode.SHARED)
    kind = naming.kind_of(shared, asker.session.settings.layout)
    name = naming.prefix(claim.id, "", kind) + old.number
    create = _node(asker, f"{folder}/{name}", asker.shown(shared, raw=place.raw))
    place.outcome_unknown = True
    if not await asker.all_or_nothing(Delete(f"{folder}/{old.name}", -1), create):
        (found,) = await asker.ask(Exists(f"{folder}/{name}", None))
        if found is None:
            place.outcome_unknown = False
            return False
    place.node, place.claim, place.outcome_unknown = name, shared, False
    return True


async def detach(asker: ZooKeeperBackend, claim: Claim, ttl: float) -> bool:
    """A node that belongs to no session in the place of ours."""
    place = asker.session.places.get(claim.id)
    if place is None or not asker._holds(place):
        return False
    old = naming.node(place.node)
    if old is None:
        return False
    folder = place.folder
    name = naming.prefix(claim.id, old.owner, old.kind, detached=True) + old.number
    data = asker.shown(claim, raw=place.raw, detached=ttl)
    create = _node(asker, f"{folder}/{name}", data, flags=0)
    if not await asker.all_or_nothing(Delete(f"{folder}/{old.name}", -1), create):
        (found,) = await asker.ask(Exists(f"{folder}/{name}", None))
        if found is None:
            return False
    asker.session.places.pop(claim.id, None)
    return True


async def attach(asker: ZooKeeperBackend, detached: Claim, claim: Claim) -> Place | None:
    """A node of our session in the place of the detached one: only the first who asks gets it."""
    place = asker.session.place(claim)
    folder = place.folders[-1]
    if asker._holds(place):
        return place
    for _ in range(_TRIES):
        line = await asker.line(folder, fresh=True)
        mine = recipe.find(line, claim.id)  # the answer to an earlier asking was lost
        old = mine or recipe.find(line, detached.id)
        if old is None or (mine is None and not old.detached):
            break
        (found,) = await asker.ask(GetData(f"{folder}/{old.name}", None))
        if isinstance(found, NoNodeError):
            continue
        raw, name = looking.raw_of(*found), naming.prefix(claim.id, old.owner, old.kind)
        create = _node(asker, f"{folder}/{name}{old.number}", asker.shown(claim, raw=raw))
        swap = Delete(f"{folder}/{old.name}", -1), create
        if mine is not None or await asker.all_or_nothing(*swap):
            place.stand(name + old.number, raw)
            place.granted = True
            return place
    asker.session.places.pop(claim.id, None)
    return None


async def undo_attach(asker: ZooKeeperBackend, claim: Claim, detached: Claim) -> None:
    """A detached node again in the place of the one that took it over, if that was done at all.
    What this session sent before has arrived before, so no late `attach` has to be barred.
    """
    session = asker.session
    folder = naming.folders_of(session.settings.root, claim)[-1]
    for _ in range(_TRIES):
        mine = recipe.find(await asker.line(folder, fresh=True), claim.id)
        if mine is None:
            break
        (found,) = await asker.ask(GetData(f"{folder}/{mine.name}", None))
        if isinstance(found, NoNodeError):
            continue
        name = naming.prefix(detached.id, mine.owner, mine.kind, detached=True) + mine.number
        data = asker.shown(
            detached, raw=looking.raw_of(*found), detached=detached.ttl or asker.max_ttl
        )
        create = _node(asker, f"{folder}/{name}", data, flags=0)
        if await asker.all_or_nothing(Delete(f"{folder}/{mine.name}", -1), create):
            break
    session.places.pop(claim.id, None)


async def expire_parked(
    asker: ZooKeeperBackend, folder: str, line: Sequence[Node], own: Node
) -> float:
    """How long to wait for a detached hold that nobody takes over; 0: it is gone, look again.

    No server counts that time: everybody who waits does, from when they first saw it.
    """
    detached = [each for each in line if each.detached and each.mode is not Mode.SHARED]
    if own.mode is Mode.EXCLUSIVE:
        detached = [each for each in line if each.detached]
    left = NEVER
    seen = asker.session.detached
    for each in detached:
        path = f"{folder}/{each.name}"
        (found,) = await asker.ask(GetData(path, None))
        if isinstance(found, NoNodeError):
            seen.pop(path, None)
            return 0
        ttl = float(told(found[0]).get("detached", 0.0))
        end = seen.setdefault(path, now()) + ttl
        if now() >= end:
            del seen[path]
            await asker.ask(Delete(path, found[1].version))
            return 0
        left = min(left, end - now())
    return left


def _node(asker: ZooKeeperBackend, path: str, data: bytes, flags: int = driver.EPHEMERAL) -> Create:
    return Create(path, data, asker.session.acl, flags)
