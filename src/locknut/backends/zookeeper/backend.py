"""The ZooKeeper engine behind the core's port: the verbs, the same in both colours."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.serialization import (
    Create2,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Sync,
)

from locknut.backends.zookeeper import driver, gathering, looking, moving, naming, notes, recipe
from locknut.backends.zookeeper.asking import Asker
from locknut.backends.zookeeper.batches import PROVING
from locknut.backends.zookeeper.naming import Node
from locknut.backends.zookeeper.places import Place, Watch
from locknut.backends.zookeeper.proving import PART
from locknut.backends.zookeeper.session import Session
from locknut.core import pacing
from locknut.core.ports import Signal
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
from locknut.runtimes.clock import now

ONE_SERVER: Final = frozenset(Capability) - {Capability.LEASE, Capability.REPLICATED}
ENSEMBLE: Final = ONE_SERVER | {Capability.REPLICATED}
MAX_DETACHED_TTL: Final = 30 * 86400.0
NET: Final = 30.0
"""Ask again after this long without a ring: watches do not fail, but operators delete nodes."""


class ZooKeeperBackend(Asker):
    """An uncontended acquire waits once, and so does a release."""

    name = "zookeeper"
    min_ttl = 0.1
    heartbeat: float | None = None
    no_tombstones = (
        "a server gets what a session sends in the order it was sent, over a reconnect too: "
        "nothing that was sent before a release can arrive after it"
    )

    def __init__(self, session: Session):
        super().__init__(session)
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
        place = self.session.place(claim)
        if not place.node or place.outcome_unknown:
            return await self._decide(place, await self._stand_in_line(place))
        behind, place.behind = place.behind, None
        looked = behind is not None and place.signal is not None  # a moment ago: now watch
        if looked and await self._watch(place, behind or ""):
            return Busy(place.retry_in)
        line, place.line = place.line, None
        self._check_watch(place)
        return await self._decide(place, line)

    def _check_watch(self, place: Place) -> None:
        trouble, place.trouble = place.trouble, None
        if trouble is not None:
            self.refuse([trouble], NoAuthError)

    async def _decide(self, place: Place, line: list[Node] | None) -> Answer:
        """Mine, or a watch on the one before; what changed in between is looked at again."""
        claim = place.claim
        while True:
            if line is None:
                line = await self.line(*place.folders)
            own = next((each for each in line if each.name == place.node), None)
            if own is None:  # an operator removed it, or a break did: from the end again
                place.node, place.granted, place.folder = "", False, place.folders[0]
                line = await self._stand_in_line(place)
                continue
            found = recipe.judge(claim, line, own)
            if found.mine or (found.enters and await moving.enter(self, place)):
                return await self._granted(place)
            left = 0.0
            if not found.enters:
                left = await moving.expire_parked(self, place.folders[-1], line, own)
            if left == 0:
                line = None
                continue
            place.retry_in = min(NET, left)
            if place.signal is None:
                place.behind = found.behind
                return Busy(place.retry_in)
            if await self._watch(place, found.behind):
                return Busy(place.retry_in)
            line = None

    async def _stand_in_line(self, place: Place) -> list[Node]:
        """Make the node and list all, in one wait; the line as it is with us in it."""
        claim, folder = place.claim, place.folder
        if place.outcome_unknown and (line := await self._find_again(place)) is not None:
            return line
        mark = naming.owner_mark(claim.owner) if claim.mode is Mode.EXCLUSIVE else ""
        if mark and (line := await moving.join_fellow(self, place, mark)) is not None:
            return line
        # From here on until it is noted: whoever waits may be interrupted.
        place.outcome_unknown = True
        refused = False
        for _ in range(10):
            made, *children = await self.ask(*self.standing(place))
            if isinstance(made, NoNodeError):  # the first one here, or the server tidied up
                refused = await self.make_folder(folder)
                continue
            if isinstance(made, Exception):
                raise self.failed(made)
            return self.stood(place, made, children)
        raise self.not_made(folder, refused=refused)

    def standing(self, place: Place) -> list[Any]:
        """What to send: the node, and the question who is there."""
        session, claim = self.session, place.claim
        mark = naming.owner_mark(claim.owner) if claim.mode is Mode.EXCLUSIVE else ""
        kind = naming.kind_of(claim, session.settings.layout)
        if claim.mode is Mode.PERMIT:
            kind = naming.WAITING
        path = f"{place.folder}/{naming.prefix(claim.id, mark, kind)}"
        flags = driver.EPHEMERAL | driver.SEQUENCE
        create = Create2(path, self.shown(claim), session.acl, flags)
        return [create, *(GetChildren(each, None) for each in place.folders)]

    def stood(self, place: Place, made: Any, children: Sequence[Any]) -> list[Node]:
        """It stands in line, and this is the line."""
        node, stat = made
        place.stand(node.rpartition("/")[2], stat.czxid)
        return naming.listed(children)

    async def _find_again(self, place: Place) -> list[Node] | None:
        """Our node, if the create without an answer was done after all."""
        place.node, place.folder = "", place.folders[0]
        line = await self.line(*place.folders, fresh=True)
        found = recipe.find(line, place.claim.id)
        if found is None:
            return None
        (answer,) = await self.ask(GetData(place.path_of(found), None))
        if isinstance(answer, Exception):
            return None  # it was there a moment ago, and somebody has removed it
        data, stat = answer
        if stat.ephemeralOwner != self.session.id:
            return None  # of a session that is over: the server is about to remove it
        place.stand(found.name, looking.raw_of(data, stat))
        return line

    async def _watch(self, place: Place, behind: str) -> bool:
        """Be rung when that one goes; False if something changed meanwhile. No one to name: when
        any lease goes, and one that went before the watch was there is seen in its own answer.
        """
        if behind:
            place.watch(behind)
            return True
        place.forget_watch()
        place.watching = place.folders[-1]
        try:
            (answer,) = await self.ask(GetChildren(place.watching, place.stirred))
        except BackendUnavailable:
            place.watching = ""
            raise
        return not recipe.room(naming.listed([answer]), place.claim.permits)

    async def _granted(self, place: Place) -> Answer:
        """A grant, for as long as the session is proven to live; not proven enough: not yet."""
        session, claim = self.session, place.claim
        enough = min(claim.ttl or self.max_ttl, session.proof.timeout) / PART
        if session.proof.until() - now() < enough:
            await self.ask(PROVING)
            await self.ask(Sync("/"))
            if session.proof.until() - now() < enough:
                return Busy(session.proof.timeout / PART / 2)
        if place.epoch != session.epoch:
            raise self.unavailable()
        place.granted = True
        place.forget_watch()
        return Granted(place.raw, claim.ttl or self.max_ttl, None, session.proof.until())

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        session = self.session
        held = [session.places.get(claim.id) for claim in claims]
        ours = [each for each in held if each is not None and self._holds(each)]
        sent = now()
        folders = notes.folders(self, claims)
        requests = [Exists(each.path, None) for each in ours]
        requests += [GetData(folder, None) for folder in folders]
        # Many holds that are due one after the other are not a write each.
        first = PROVING if session.proof.wants(sent) else Sync("/")
        _, *stats = await self.answers([first, *requests])
        stats, data = stats[: len(ours)], stats[len(ours) :]
        self.refuse(stats, NoAuthError)
        found = {each.claim.id for each, stat in zip(ours, stats, strict=True) if stat is not None}
        answers = [self._renewal(claim, found, sent) for claim in claims]
        notes.told(self, claims, answers, dict(zip(folders, data, strict=True)))
        return answers

    def _renewal(self, claim: Claim, found: set[str], sent: float) -> Renewed:
        place = self.session.places.get(claim.id)
        if place is not None and place.epoch != self.session.epoch:
            return Renewal.UNKNOWN  # the session's end is told to all, and not as a taking
        if claim.id not in found or place is None or not self._holds(place):
            return Renewal.LOST
        until = self.session.proof.until()
        if until <= now():
            return Renewal.UNKNOWN
        full = pacing.validity(sent, claim.ttl or self.max_ttl)
        return Renewal.HELD if until >= full else HeldUntil(until)

    def _holds(self, place: Place) -> bool:
        return place.granted and place.epoch == self.session.epoch

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:  # noqa: ARG002 -- see no_tombstones
        session = self.session
        place = session.places.get(claim.id)
        if session.closed:
            session.places.pop(claim.id, None)
            return False  # the session ended, and all its nodes with it
        if place is not None and place.epoch != session.epoch:
            session.places.pop(claim.id, None)
            return False
        if place is None or place.outcome_unknown or not place.node:
            return await self._release_unknown(claim, place)
        place.forget_watch()
        (answer,) = await self.ask(Delete(place.path, -1))
        session.places.pop(claim.id, None)
        return place.granted and not isinstance(answer, NoNodeError)

    async def _release_unknown(self, claim: Claim, place: Place | None) -> bool:
        """Another client's claim, or one whose node we were not told of."""
        there = place or Place(claim, self.session)
        line = await self.line(*there.folders, fresh=True)
        own = recipe.find(line, claim.id)
        if own is None:
            self.session.places.pop(claim.id, None)
            return False
        held = recipe.judge(claim, line, own).mine
        (answer,) = await self.ask(Delete(there.path_of(own), -1))
        self.session.places.pop(claim.id, None)
        return held and not isinstance(answer, NoNodeError)

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy:
        return await gathering.attempt_all(self, claims)

    async def release_all(
        self,
        claims: Sequence[Claim],
        *,
        outcome_unknown: bool = False,  # noqa: ARG002 -- see no_tombstones
    ) -> list[bool]:
        return await gathering.release_all(self, claims)

    async def downgrade(self, claim: Claim) -> bool:
        return await moving.downgrade(self, claim)

    async def detach(self, claim: Claim, ttl: float) -> bool:
        return await moving.detach(self, claim, ttl)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        place = await moving.attach(self, detached, claim)
        if place is None:
            return None
        if place.epoch != self.session.epoch:
            raise self.unavailable()
        return Granted(place.raw, claim.ttl or self.max_ttl, None, self.session.proof.until())

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        if not self.session.closed:  # or else its node went with the session
            await moving.undo_attach(self, claim, detached)

    async def break_hold(self, key: str, raw: int | None) -> LockInfo | None:
        return await looking.break_hold(self, key, raw)

    async def break_with_note(self, key: str, raw: int | None, note: str) -> LockInfo | None:
        return await looking.break_hold(self, key, raw, note)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await looking.inspect_all(self, None)
        return await looking.inspect(self, key)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return await looking.inspect_all(self, prefix.removesuffix(":"))

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return Watch(self.session.place(claim), signal())

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self.session.listen(on_notice)

    def forked(self) -> None:
        self.session.forked()
