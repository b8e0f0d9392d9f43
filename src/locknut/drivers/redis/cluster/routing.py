"""How commands reach the nodes of their slots, the same in both colours; a colour does the sending.

A node that says MOVED or ASK has done nothing, so asking the right one is safe. TRYAGAIN (the keys
of a lock are on their way between two nodes) and CLUSTERDOWN are "not now": the core asks again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hiredis import HiredisError, ReplyError

from locknut.drivers.redis import settings as reading
from locknut.drivers.redis import wire
from locknut.drivers.redis.cluster.hash_slots import (
    Address,
    SlotMap,
    key_of,
    redirect,
    slot_of,
)
from locknut.drivers.redis.cluster.views import NodeView, Survey, view
from locknut.drivers.redis.confirmations import Confirmation, Unconfirmed
from locknut.drivers.redis.endpoints import BRIEFLY, Dial, EvictionCheck, Latest, P, TimeAndChance
from locknut.drivers.redis.recovery import Recovery
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.runtimes.deadlines import has_time, hurried

if TYPE_CHECKING:
    from locknut.urls import Url

_MOST_REDIRECTS: Final = 5
_SLOTS: Final = wire.pack(b"CLUSTER", b"SLOTS")
_INFO: Final = wire.pack(b"CLUSTER", b"INFO")
_SOON: Final = 0.1
"""Seconds after which the cluster is asked again whether somebody else has a suspect's slots."""
_ASKING: Final = wire.pack(b"ASKING")

Answers = Mapping[Address, list[Any] | BackendError]


class Cluster:
    """What is known of a cluster, by all backends of an engine; keeps no connection."""

    def __init__(self, seeds: list[Settings]):
        self._seeds = seeds
        self.settings = seeds[0]
        self.map = SlotMap(seeds)
        self._suspects: set[Address] = set()
        self._learned = float("-inf")
        self._eviction_check = EvictionCheck()
        self._recovery = Recovery()

    def anew(self) -> Cluster:
        """The same cluster, of which nothing is known yet: a forked child has one of its own."""
        return Cluster(list(self._seeds))

    def suspect(self, address: Address, now: float) -> None:
        """This node did not answer, refused us or is cut off: perhaps another has its slots."""
        if address not in self._suspects or now >= self._learned + _SOON:
            self.map.stale = True
        self._suspects.add(address)

    def trust(self, address: Address) -> None:
        """It serves its slots (again)."""
        self._suspects.discard(address)

    def node(self, address: Address) -> Node:
        return Node(self.settings.at(*address), self._eviction_check)

    async def refresh(self, dial: Dial[P]) -> None:
        """Ask the nodes who has which slot now, and believe the best of their views."""
        self._recovery.ensure_time(dial.clock)
        survey, cut_short = Survey(), False
        while (settings := survey.next(self.map, self._suspects)) is not None:
            most = math.inf if survey.asked(settings) else BRIEFLY
            try:
                survey.add(await self._view(dial, settings.in_turn(most)))
            except (BackendError, OSError, HiredisError) as error:
                why = error
                if not isinstance(why, BackendError):
                    why = wire.unreachable(settings, error)
                silent = wire.timed_out(error)
                survey.failed(settings, why, silent=silent)
                cut_short = hurried() and silent
                if cut_short and not has_time():
                    break  # nothing is known of the others
        self._suspects |= survey.poor()
        try:
            best = survey.best()
        except BackendUnavailable as error:
            if not cut_short:
                self._recovery.failed(error, dial.clock)
            raise
        self._suspects.discard(best.address)
        self.map.learn(best)
        self._learned = dial.clock.now()
        self._recovery.reached()

    async def _view(self, dial: Dial[P], settings: Settings) -> NodeView:
        peer = await dial.open(settings)
        try:
            ranges = await dial.ask(peer, _SLOTS)
            facts = await dial.ask(peer, _INFO)
        finally:
            peer.close()
        if isinstance(ranges, ReplyError):
            raise wire.failed(ranges)
        return view((settings.host, settings.port), ranges, facts)


class Node:
    """One master of the cluster, as an endpoint."""

    watched = False

    def __init__(self, settings: Settings, looked: EvictionCheck):
        self.settings = settings
        self.latest = Latest()
        self._eviction_check = looked

    async def reach(self, dial: Dial[P]) -> P:
        peer = await self._eviction_check.open(dial, self.settings)
        if peer.welcome.role == "replica":
            peer.close()
            message = f"{self.settings.place} became a replica"
            raise BackendUnavailable(message, backend="redis")
        return peer

    async def confirm(self, dial: Dial[Any]) -> None:
        """A node that is not the master says so, and where the master is."""


class Routes(ABC):
    """Sends each command to the node that has its slot, and follows where nodes point."""

    def __init__(self, cluster: Cluster, clock: TimeAndChance):
        self.cluster = cluster
        self._now = clock.now
        self._lagging: dict[Address, float] = {}
        """Nodes whose replicas did not confirm just now, and until when they are left alone."""

    @abstractmethod
    async def _refresh(self) -> None:
        """Have the slot map made anew; once for all callers that want it now."""

    @abstractmethod
    async def _together(self, sent: Mapping[Address, Sequence[bytes]]) -> Answers:
        """The answers of several nodes, asked at the same time, or why there are none."""

    def suspect(self, address: Address) -> None:
        self.cluster.suspect(address, self._now())

    async def owner_of(self, packed: bytes) -> Address:
        await self.look()
        return self._owner(packed)

    async def look(self) -> None:
        """Have the map made new if it is stale; if nobody can tell, what is known has to do."""
        if self.cluster.map.stale:
            try:
                await self._refresh()
            except BackendError:
                if not self.cluster.map.masters():
                    raise

    def _owner(self, packed: bytes) -> Address:
        owner = self.cluster.map.owner(slot_of(key_of(packed) or b""))
        if owner is None:
            self.cluster.map.stale = True
            raise BackendUnavailable("no node has the slot of this lock", backend="redis")
        return owner

    def known_owner_of(self, packed: bytes) -> Address | None:
        """The same, if that needs no question."""
        key = key_of(packed)
        stale = self.cluster.map.stale
        return None if stale or key is None else self.cluster.map.owner(slot_of(key))

    def owners_of(self, keys: Iterable[bytes]) -> list[Address | None]:
        """Which node has each of these keys, as far as is known."""
        return [self.cluster.map.owner(slot_of(key)) for key in keys]

    async def route(
        self, packed: Sequence[bytes], confirmation: Confirmation | None = None
    ) -> list[object]:
        """The answers in order; a command that got none has the reason, a BackendError, there.

        One without a key (SCRIPT LOAD) goes to every node that gets another of this batch, in its
        order, and has the last of their answers.
        """
        replies: list[object] = [None] * len(packed)
        keyless = [at for at, each in enumerate(packed) if key_of(each) is None]
        left: dict[int, Address] = {}
        await self.look()
        for at, each in enumerate(packed):
            if at not in keyless:
                try:
                    left[at] = self._owner(each)
                except BackendError as error:
                    replies[at] = error
        asking: set[int] = set()
        for _ in range(_MOST_REDIRECTS):
            if not left:
                return replies
            plan = _plan(packed, keyless, left, asking)
            answers = await self._ask(plan, packed, confirmation)
            left, asking = self._sort(plan, answers, replies)
        lost = BackendUnavailable("the nodes of the cluster point at each other", backend="redis")
        for at in left:
            replies[at] = lost
        return replies

    async def _ask(
        self,
        plan: Mapping[Address, list[int]],
        packed: Sequence[bytes],
        confirmation: Confirmation | None,
    ) -> Answers:
        if confirmation is None:
            return await self._together({to: _words(packed, at) for to, at in plan.items()})
        end = [confirmation.question]
        asked = {to: at for to, at in plan.items() if self._now() >= self._lagging.get(to, 0.0)}
        answers: dict[Address, list[Any] | BackendError] = {
            to: confirmation.missed() for to in plan if to not in asked
        }
        heard = await self._together({to: _words(packed, at) + end for to, at in asked.items()})
        for to, answer in heard.items():
            answers[to] = answer if isinstance(answer, BackendError) else confirmation.judge(answer)
            self._note(to, answers[to], confirmation)
        return answers

    def _note(self, to: Address, answer: Sequence[Any] | BackendError, how: Confirmation) -> None:
        """A node whose replicas lag takes its time for every question: half of ours is enough."""
        if isinstance(answer, Sequence) and any(isinstance(each, Unconfirmed) for each in answer):
            self._lagging[to] = self._now() + how.limit
        else:
            self._lagging.pop(to, None)

    def _sort(
        self, plan: Mapping[Address, list[int]], answers: Answers, replies: list[object]
    ) -> tuple[dict[int, Address], set[int]]:
        """Answers to where they belong; what has to be asked elsewhere, and what only this once."""
        left: dict[int, Address] = {}
        asking: set[int] = set()
        for address, places in plan.items():
            answer = answers[address]
            if isinstance(answer, BackendError):
                self.suspect(address)
                answer = [answer] * len(places)
            elif not any(map(wire.cut_off, answer)):
                self.cluster.trust(address)
            else:
                self.suspect(address)
            for at, reply in zip(places, answer, strict=True):
                elsewhere = None if at < 0 else redirect(reply, address[0])
                if elsewhere is None:
                    if at >= 0:
                        replies[at] = reply
                    continue
                left[at] = elsewhere.address
                if elsewhere.moved:
                    self.cluster.map.moved(elsewhere)
                else:
                    asking.add(at)
        return left, asking

    def refused(self, reply: ReplyError) -> BackendError:
        """The error for an answer that `route` did not see: where it leads is learned here too."""
        elsewhere = redirect(reply, "")
        if elsewhere is not None:
            self.cluster.map.stale = True
            return BackendUnavailable(f"the slot is elsewhere by now: {reply}", backend="redis")
        if wire.elsewhere(reply) or wire.cut_off(reply):
            self.cluster.map.stale = True
        return wire.failed(reply)


def _plan(
    packed: Sequence[bytes], keyless: list[int], left: Mapping[int, Address], asking: set[int]
) -> dict[Address, list[int]]:
    """Which commands go to which node, by their places; -1 is ASKING, for the one after it."""
    plan: dict[Address, list[int]] = {to: [] for to in left.values()}
    for at in range(len(packed)):
        if at in keyless:
            for places in plan.values():
                places.append(at)
        elif at in left:
            plan[left[at]] += [-1, at] if at in asking else [at]
    return plan


def _words(packed: Sequence[bytes], places: list[int]) -> list[bytes]:
    return [_ASKING if at < 0 else packed[at] for at in places]


def read(url: Url) -> Cluster:
    """`redis+cluster://user:password@h1:7000,h2:7000`."""
    base = url.scheme.partition("+")[0]
    seeds = reading.read_hosts(type(url)(base, url.netloc, url.path, url.options))
    if seeds[0].db:
        raise ConfigurationError("a cluster has no databases but 0", backend="redis")
    return Cluster(seeds)
