"""The ZooKeeper engine behind the core's port: the verbs, the same in both colours."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import Create2, Delete, GetChildren, GetData, Sync

from locknut.backends.zookeeper import (
    contenders,
    many_keys,
    node_names,
    node_swaps,
    notes,
    recipe,
    requests,
)
from locknut.backends.zookeeper.claim_node import ClaimState
from locknut.backends.zookeeper.node_names import Node
from locknut.backends.zookeeper.requests import PROVING, Asker
from locknut.backends.zookeeper.session import Session
from locknut.backends.zookeeper.session_proof import PART
from locknut.core import pacing
from locknut.core.base import BaseBackend, Watch
from locknut.core.ports import Runtime, Signal
from locknut.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Granted,
    HeldUntil,
    LockInfo,
    Mode,
    Notice,
    Renewal,
    Renewed,
)
from locknut.errors import BackendUnavailable

ONE_SERVER: Final = frozenset(Capability) - {
    Capability.LEASE,
    Capability.REPLICATED,
    Capability.HISTORY,
}
ENSEMBLE: Final = ONE_SERVER | {Capability.REPLICATED}
MAX_DETACHED_TTL: Final = 30 * 86400.0
NET: Final = 30.0
"""Seconds without a ring after which we ask again: watches do not fail, operators delete nodes."""


class ZooKeeperBackend(Asker, BaseBackend):
    """An uncontended acquire waits once, and so does a release."""

    name = "zookeeper"
    min_ttl = 0.1
    batches = True
    passes_notes = True
    no_tombstones = (
        "a server gets what a session sends in the order it was sent, over a reconnect too: "
        "nothing that was sent before a release can arrive after it"
    )

    def __init__(self, session: Session, runtime: Runtime):
        super().__init__(session, runtime)
        settings = session.settings
        self.capabilities = ENSEMBLE if len(settings.hosts) > 1 else ONE_SERVER
        # Renewed every quarter: what the last but one write proves then has three quarters left.
        self.max_ttl = settings.session_timeout * (PART - 1) / PART
        self.default_ttl: float | None = self.max_ttl
        self.max_detached_ttl = MAX_DETACHED_TTL  # no session has anything to do with it
        session.join()
        self._leaving = weakref.finalize(self, session.leave)
        self._leaving.atexit = False

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        await self.ready()
        state = self.session.state_of(claim)
        if not state.node or state.outcome_unknown:
            return await self._decide(state, await self._stand_in_line(state))
        behind, state.behind = state.behind, None
        looked = behind is not None and state.signal is not None  # a moment ago: now watch
        if looked and await self._watch(state, behind or ""):
            return Busy(state.retry_in)
        line, state.line = state.line, None
        self._check_watch(state)
        return await self._decide(state, line)

    def _check_watch(self, state: ClaimState) -> None:
        trouble, state.trouble = state.trouble, None
        if trouble is not None:
            self.refuse([trouble], NoAuthError)

    async def _decide(self, state: ClaimState, line: list[Node] | None) -> Answer:
        """Grant, or watch the node before ours; look again if something changed in between."""
        claim = state.claim
        while True:
            if line is None:
                line = await self.line(*state.folders)
            own = next((each for each in line if each.name == state.node), None)
            if own is None:  # an operator or a break removed our node: stand at the end again
                state.node, state.granted, state.folder = "", False, state.folders[0]
                line = await self._stand_in_line(state)
                continue
            found = recipe.judge(claim, line, own)
            if found.mine or (found.enters and await node_swaps.enter(self, state)):
                return await self._granted(state)
            left = 0.0
            if not found.enters:
                left = await node_swaps.expire_detached(self, state.folders[-1], line, own)
            if left == 0:
                line = None
                continue
            state.retry_in = min(NET, left)
            if state.signal is None:
                state.behind = found.behind
                return Busy(state.retry_in)
            if await self._watch(state, found.behind):
                return Busy(state.retry_in)
            line = None

    async def _stand_in_line(self, state: ClaimState) -> list[Node]:
        """Make our node and list the line in one wait; return the line with us in it."""
        claim, folder = state.claim, state.folder
        if state.outcome_unknown and (line := await self._find_again(state)) is not None:
            return line
        mark = node_names.owner_mark(claim.owner) if claim.mode is Mode.EXCLUSIVE else ""
        if mark and (line := await node_swaps.join_owner(self, state, mark)) is not None:
            return line
        state.outcome_unknown = True  # until `stood` has noted the node: we may be interrupted
        refused = False
        for _ in range(10):
            made, *children = await self.ask(*self.standing(state))
            if isinstance(made, NoNodeError):  # we are the first, or the server removed it
                refused = await self.make_folder(folder)
                continue
            if isinstance(made, Exception):
                raise self.failed(made)
            return self.stood(state, made, children)
        raise self.not_made(folder, refused=refused)

    def standing(self, state: ClaimState) -> list[Any]:
        """Return the requests that make our node and list the line."""
        session, claim = self.session, state.claim
        mark = node_names.owner_mark(claim.owner) if claim.mode is Mode.EXCLUSIVE else ""
        kind = node_names.kind_of(claim, session.settings.layout)
        if claim.mode is Mode.PERMIT:
            kind = node_names.WAITING
        path = f"{state.folder}/{node_names.prefix(claim.id, mark, kind)}"
        flags = requests.EPHEMERAL | requests.SEQUENCE
        create = Create2(path, self.shown(claim), session.acl, flags)
        return [create, *(GetChildren(each, None) for each in state.folders)]

    def stood(self, state: ClaimState, made: Any, children: Sequence[Any]) -> list[Node]:
        """Note that our node stands in line; return the line."""
        node, stat = made
        state.stand(node.rpartition("/")[2], stat.czxid)
        return node_names.listed(children)

    async def _find_again(self, state: ClaimState) -> list[Node] | None:
        """Find our node, if a create whose answer we never got was done after all."""
        state.node, state.folder = "", state.folders[0]
        line = await self.line(*state.folders, fresh=True)
        found = recipe.find(line, state.claim.id)
        if found is None:
            return None
        (answer,) = await self.ask(GetData(state.path_of(found), None))
        if isinstance(answer, Exception):
            return None  # it was there a moment ago, and somebody has removed it
        data, stat = answer
        if stat.ephemeralOwner != self.session.id:
            return None  # it belongs to a session that is over: the server is about to remove it
        state.stand(found.name, contenders.raw_of(data, stat))
        return line

    async def _watch(self, state: ClaimState, behind: str) -> bool:
        """Be rung when that node goes; return False if something changed meanwhile. Without a name:
        be rung when any lease goes. The answer shows if one went before the watch was there.
        """
        if behind:
            state.watch(behind)
            return True
        state.forget_watch()
        state.watching = state.folders[-1]
        try:
            (answer,) = await self.ask(GetChildren(state.watching, state.stirred))
        except BackendUnavailable:
            state.watching = ""
            raise
        return not recipe.room(node_names.listed([answer]), state.claim.permits)

    async def _granted(self, state: ClaimState) -> Answer:
        """Grant for as long as the session is proven to live; Busy if that is not long enough."""
        session, claim = self.session, state.claim
        enough = min(claim.ttl or self.max_ttl, session.proof.timeout) / PART
        if session.proof.until() - self.now() < enough:
            await self.ask(PROVING)
            await self.ask(Sync("/"))
            if session.proof.until() - self.now() < enough:
                return Busy(session.proof.timeout / PART / 2)
        if state.epoch != session.epoch:
            raise self.unavailable()
        state.granted = True
        state.forget_watch()
        return Granted(state.raw, claim.ttl or self.max_ttl, None, session.proof.until())

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        held = [self.session.states.get(claim.id) for claim in claims]
        ours = [each for each in held if each is not None and self.holds(each)]
        sent = self.now()
        folders = notes.folders(self, claims)
        nodes = [each.question() for each in ours]
        left = [GetData(folder, None) for folder in folders]
        # Many holds that are due one after the other do not need a write each.
        first = PROVING if self.session.proof.wants(sent) else Sync("/")
        _, *stats = await self.answers([first, *nodes, *left])
        stats, data = stats[: len(ours)], stats[len(ours) :]
        self.refuse(stats, NoAuthError)
        asked = zip(ours, nodes, stats, strict=True)
        found = {each.claim.id: each.is_there(node, stat) for each, node, stat in asked}
        answers = [self._renewal(claim, found.get(claim.id, False), sent) for claim in claims]
        notes.add(self, claims, answers, dict(zip(folders, data, strict=True)))
        return answers

    def _renewal(self, claim: Claim, there: bool | None, sent: float) -> Renewed:
        state = self.session.states.get(claim.id)
        if state is not None and state.epoch != self.session.epoch:
            return Renewal.UNKNOWN  # the end of a session is reported, and not as a break
        if there is False or state is None or not self.holds(state):
            return Renewal.LOST
        until = self.session.proof.until()
        if there is None or until <= self.now():
            return Renewal.UNKNOWN
        full = pacing.validity(sent, claim.ttl or self.max_ttl)
        return Renewal.HELD if until >= full else HeldUntil(until)

    def holds(self, state: ClaimState) -> bool:
        return state.granted and state.epoch == self.session.epoch

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:  # noqa: ARG002 -- see no_tombstones
        session = self.session
        state = session.states.get(claim.id)
        if session.closed:
            session.states.pop(claim.id, None)
            return False  # the session ended, and all its nodes went with it
        if state is not None and state.epoch != session.epoch:
            session.states.pop(claim.id, None)
            return False
        if state is None or state.outcome_unknown or not state.node:
            return await self._release_unknown(claim, state)
        state.forget_watch()
        (answer,) = await self.ask(Delete(state.path, -1))
        session.states.pop(claim.id, None)
        return state.granted and not isinstance(answer, NoNodeError)

    async def _release_unknown(self, claim: Claim, state: ClaimState | None) -> bool:
        """Release a claim of another client, or one whose node we do not know."""
        there = state or ClaimState(claim, self.session)
        line = await self.line(*there.folders, fresh=True)
        own = recipe.find(line, claim.id)
        if own is None:
            self.session.states.pop(claim.id, None)
            return False
        held = recipe.judge(claim, line, own).mine
        (answer,) = await self.ask(Delete(there.path_of(own), -1))
        self.session.states.pop(claim.id, None)
        return held and not isinstance(answer, NoNodeError)

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy:
        return await many_keys.attempt_all(self, claims)

    async def release_all(
        self,
        claims: Sequence[Claim],
        *,
        outcome_unknown: bool = False,  # noqa: ARG002 -- see no_tombstones
    ) -> list[bool]:
        return await many_keys.release_all(self, claims)

    async def downgrade(self, claim: Claim) -> bool:
        return await node_swaps.downgrade(self, claim)

    async def detach(self, claim: Claim, ttl: float) -> bool:
        return await node_swaps.detach(self, claim, ttl)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        state = await node_swaps.attach(self, detached, claim)
        if state is None:
            return None
        if state.epoch != self.session.epoch:
            raise self.unavailable()
        return Granted(state.raw, claim.ttl or self.max_ttl, None, self.session.proof.until())

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        if not self.session.closed:  # or else its node went with the session
            await node_swaps.undo_attach(self, claim, detached)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return await contenders.break_hold(self, key, raw, note)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await contenders.inspect_all(self, None)
        return await contenders.inspect(self, key)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return await contenders.inspect_all(self, prefix.removesuffix(":"))

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return Watch(self.session.state_of(claim), signal())

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self.session.listen(on_notice)

    def forked(self) -> None:
        self.session.forked()
