"""One node in the place of another, in one step: entering a semaphore, joining an owner,
downgrading, detaching, attaching.

The new node has the number of the old one, as Curator's reader inside a writer has. So it stands
where the old one stood, and nobody can come in between. Only the lease of a semaphore gets a new
number, because leases are numbered among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import CheckVersion, Create, Delete, Exists, GetData, Transaction

from locknut.backends.zookeeper import contenders, node_names, recipe, requests
from locknut.backends.zookeeper.node_names import Node
from locknut.backends.zookeeper.requests import facts_in
from locknut.core.ports import NEVER
from locknut.core.values import Claim, Mode

if TYPE_CHECKING:
    from locknut.backends.zookeeper.backend import ZooKeeperBackend
    from locknut.backends.zookeeper.claim_node import ClaimState

_TRIES = 10
MOST_SEEN: Final = 1000
"""Detached holds that a client remembers the first sight of."""


async def enter(backend: ZooKeeperBackend, state: ClaimState) -> bool:
    """Move from the head of the line to the leases; return False if our node is gone from the line.

    This is one step, so the claim stands in one of the two: a lost answer leaves no other doubt.
    """
    claim, leases = state.claim, state.folders[-1]
    name = node_names.prefix(
        claim.id, "", node_names.kind_of(claim, backend.session.settings.layout)
    )
    flags = requests.EPHEMERAL | requests.SEQUENCE
    create = _node(backend, f"{leases}/{name}", backend.shown(claim, raw=state.raw), flags)
    refused = False
    for _ in range(_TRIES):
        state.outcome_unknown = True
        (results,) = await backend.ask(Transaction((Delete(state.path, -1), create)))
        if isinstance(results, Exception):
            raise backend.failed(results)
        backend.refuse(results, NoAuthError)
        left, made = results
        if isinstance(made, str):
            state.stand(made.rpartition("/")[2], state.raw)
            return True
        state.outcome_unknown = False
        if isinstance(left, NoNodeError):
            return False
        if not isinstance(made, NoNodeError):
            raise backend.failed(made)
        refused = await backend.make_folder(leases)
    raise backend.not_made(leases, refused=refused)


async def join_owner(backend: ZooKeeperBackend, state: ClaimState, mark: str) -> list[Node] | None:
    """Stand beside another claim of the same owner; return None if there is none."""
    folder = state.folder
    for _ in range(_TRIES):
        fellow = recipe.fellow(await backend.line(folder), mark)
        if fellow is None:
            return None
        beside = f"{folder}/{fellow.name}"
        (found,) = await backend.ask(GetData(beside, None))
        if isinstance(found, NoNodeError):
            continue
        raw = contenders.raw_of(*found)
        name = node_names.prefix(state.claim.id, mark, fellow.kind) + fellow.number
        state.outcome_unknown = True
        create = _node(backend, f"{folder}/{name}", backend.shown(state.claim, raw=raw))
        if await backend.all_or_nothing(CheckVersion(beside, -1), create):
            state.stand(name, raw)
            return await backend.line(folder)
        state.outcome_unknown = False
    return None


async def downgrade(backend: ZooKeeperBackend, claim: Claim) -> bool:
    """Put a reader's node in the place of the writer's."""
    state = backend.session.states.get(claim.id)
    if state is None or not backend.holds(state):
        return False
    old, folder = node_names.node(state.node), state.folder
    if old is None or old.mode is Mode.SHARED:
        return True
    shared = claim._replace(mode=Mode.SHARED)
    kind = node_names.kind_of(shared, backend.session.settings.layout)
    name = node_names.prefix(claim.id, "", kind) + old.number
    create = _node(backend, f"{folder}/{name}", backend.shown(shared, raw=state.raw))
    state.outcome_unknown = True
    if not await backend.all_or_nothing(Delete(f"{folder}/{old.name}", -1), create):
        (found,) = await backend.ask(Exists(f"{folder}/{name}", None))
        if found is None:
            state.outcome_unknown = False
            return False
    state.node, state.claim, state.outcome_unknown = name, shared, False
    return True


async def detach(backend: ZooKeeperBackend, claim: Claim, ttl: float) -> bool:
    """Put a node that belongs to no session in the place of ours."""
    state = backend.session.states.get(claim.id)
    if state is None or not backend.holds(state):
        return False
    old = node_names.node(state.node)
    if old is None:
        return False
    folder = state.folder
    name = node_names.prefix(claim.id, old.owner, old.kind, detached=True) + old.number
    data = backend.shown(claim, raw=state.raw, detached=ttl)
    create = _node(backend, f"{folder}/{name}", data, flags=0)
    # Forgotten before it is sent: if the answer is lost, a release looks for whichever node of this
    # claim there is. The new one stays when our session ends.
    backend.session.states.pop(claim.id, None)
    return await backend.all_or_nothing(Delete(f"{folder}/{old.name}", -1), create)


async def attach(backend: ZooKeeperBackend, detached: Claim, claim: Claim) -> ClaimState | None:
    """Put a node of our session in the place of the detached one; only the first caller gets it."""
    state = backend.session.state_of(claim)
    folder = state.folders[-1]
    if backend.holds(state):
        return state
    for _ in range(_TRIES):
        line = await backend.line(folder, fresh=True)
        mine = recipe.find(line, claim.id)  # there, if the answer to an earlier swap was lost
        old = mine or recipe.find(line, detached.id)
        if old is None or (mine is None and not old.detached):
            break
        (found,) = await backend.ask(GetData(f"{folder}/{old.name}", None))
        if isinstance(found, NoNodeError):
            continue
        raw, name = contenders.raw_of(*found), node_names.prefix(claim.id, old.owner, old.kind)
        create = _node(backend, f"{folder}/{name}{old.number}", backend.shown(claim, raw=raw))
        swap = Delete(f"{folder}/{old.name}", -1), create
        if mine is not None or await backend.all_or_nothing(*swap):
            state.stand(name + old.number, raw)
            state.granted = True
            return state
    backend.session.states.pop(claim.id, None)
    return None


async def undo_attach(backend: ZooKeeperBackend, claim: Claim, detached: Claim) -> None:
    """Put a detached node back in the place of the one that took it over, if that was done at all.
    What this session sent before has arrived before, so no late `attach` has to be barred.
    """
    session = backend.session
    folder = node_names.folders_of(session.settings.root, claim)[-1]
    for _ in range(_TRIES):
        mine = recipe.find(await backend.line(folder, fresh=True), claim.id)
        if mine is None:
            break
        (found,) = await backend.ask(GetData(f"{folder}/{mine.name}", None))
        if isinstance(found, NoNodeError):
            continue
        name = node_names.prefix(detached.id, mine.owner, mine.kind, detached=True) + mine.number
        data = backend.shown(
            detached, raw=contenders.raw_of(*found), detached=detached.ttl or backend.max_ttl
        )
        create = _node(backend, f"{folder}/{name}", data, flags=0)
        if await backend.all_or_nothing(Delete(f"{folder}/{mine.name}", -1), create):
            break
    session.states.pop(claim.id, None)


async def expire_detached(
    backend: ZooKeeperBackend, folder: str, line: Sequence[Node], own: Node
) -> float:
    """Return how long to wait for a detached hold that nobody takes over; 0 if it is gone by now.

    No server counts that time: every waiter counts it, from when it first saw the hold.
    """
    detached = [each for each in line if each.detached]
    if own.mode is not Mode.EXCLUSIVE:
        detached = [each for each in detached if each.mode is not Mode.SHARED]
    left = NEVER
    seen = backend.session.detached
    for each in detached:
        path = f"{folder}/{each.name}"
        (found,) = await backend.ask(GetData(path, None))
        if isinstance(found, NoNodeError):
            seen.pop(path, None)
            return 0
        if len(seen) > MOST_SEEN:  # most of them were attached, and nobody looked again
            for oldest in list(seen)[: -MOST_SEEN // 2]:
                seen.pop(oldest, None)
        ttl = float(facts_in(found[0]).get("detached", 0.0))
        end = seen.setdefault(path, backend.now()) + ttl
        if backend.now() >= end:
            seen.pop(path, None)  # another thread may have seen it at the same time
            await backend.ask(Delete(path, found[1].version))
            return 0
        left = min(left, end - backend.now())
    return left


def _node(
    backend: ZooKeeperBackend, path: str, data: bytes, flags: int = requests.EPHEMERAL
) -> Create:
    return Create(path, data, backend.session.acl, flags)
