"""The engine's side of the simulation: the memory engine's store, on a machine that can fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from locknut.backends.memory.store import Held, Store
from locknut.core.values import LockInfo, Notice
from tests.simulation.checker.history import Kind
from tests.simulation.network import StoreFaults
from tests.simulation.process import Clock

if TYPE_CHECKING:
    from tests.simulation.network import Faults, Network
    from tests.simulation.world import World

SNAPSHOTS = (0.5, 1.0, 3.0)
"""Seconds from one to the next."""
EPOCH = 1.8e9
"""What wall clocks show when a run begins."""


class Order(NamedTuple):
    """One command on its way: for which claims, and whether all it may do is renew."""

    actors: tuple[str, ...]
    command: Command
    renews: bool = False

    def may_only_renew(self, claim_id: str) -> bool:
        return self.renews and claim_id in self.actors

    def culprit(self, claim_id: str) -> str:
        """Whose doing a change to this claim is: its own, if it is among those who asked."""
        return claim_id if claim_id in self.actors else next(iter(self.actors), "")


class SimStore(Store):
    """The store, and a look into it."""

    def holds(self) -> Iterator[Held]:
        for key in self._keys.values():
            yield from key.holders.values()

    def copied(self) -> Callable[[SimStore], None]:
        """What is known now, to be put into another store later."""
        keys = deepcopy(self._keys)
        tombstones, last = dict(self._tombstones), self._last

        def put(store: SimStore) -> None:
            store._keys, store._tombstones = deepcopy(keys), dict(tombstones)
            store._last = last

        return put

    def pushed(self, _: str) -> int | None:
        """What goes with a ring: nothing, unless releases grant to the next in line."""
        return None

    def places_in_line(self) -> Iterator[tuple[str, str]]:
        for (name, _), key in self._keys.items():
            for claim_id in key.line:
                yield name, claim_id


Command = Callable[[SimStore, float], Any]
NOBODY = Order((), lambda _, __: None)


class Node:
    """One server: applies commands, rings waiters, tells the history, restarts."""

    strangers: Collection[str] = ()
    """Processes that cannot reach it."""

    def __init__(
        self, world: World, network: Network, store_type: type[SimStore] = SimStore
    ) -> None:
        self.world = world
        self.network = network
        self.store_type = store_type
        drift = network.faults.drift
        self.clock = Clock(world.random.uniform(0, 1000), 1 + world.random.uniform(-drift, drift))
        self.wall_ahead = 0.0
        self.up = True
        self.watchers: dict[str, Callable[[int | None], None]] = {}
        self.listeners: list[Callable[[str | None, Notice], None]] = []
        self._seen: dict[str, tuple[int, float, str]] = {}
        self._copies: list[Callable[[SimStore], None]] = []
        self.store = self._new_store()

    def now(self) -> float:
        return self.clock.read(self.world.now)

    def wall(self) -> float:
        return EPOCH + self.world.now + self.wall_ahead

    def apply(self, order: Order) -> Any:  # what the store answers
        """Run one command, and tell the history what it did to whom."""
        answer = order.command(self.store, self.now())
        self.tell(order)
        return answer

    def tell(self, order: Order, note: str = "") -> None:
        """Compare the store with what it was: who was granted, extended, freed, and by whom."""
        now = self.now()
        found = {held.claim.id: held for held in self.store.holds()}
        for claim_id, (raw, expires, name) in list(self._seen.items()):
            over = expires <= now and not order.may_only_renew(claim_id)
            if claim_id not in found or found[claim_id].raw != raw or over:
                by = "" if note or expires <= now else order.culprit(claim_id)
                self._record(Kind.FREED, name, claim_id, by=by, note=note)
                del self._seen[claim_id]
        for claim_id, held in found.items():
            before = self._seen.get(claim_id)
            if held.expires > now and (before is None or before[1] != held.expires):
                granted = before is None and not order.may_only_renew(claim_id)
                kind = Kind.GRANTED if granted else Kind.EXTENDED
                cut_down = before is not None and held.expires < before[1]
                self._tell_held(kind, held, "" if cut_down else order.culprit(claim_id))

    def withdrawn(self, name: str, claim_id: str) -> None:
        """A release was applied: from now on this claim must not hold, wait or be granted."""
        self._record(Kind.WITHDRAWN, name, claim_id, by=claim_id)
        if any(claim_id == waiting for _, waiting in self.store.places_in_line()):
            self._record(Kind.LEFT, name, claim_id, note="a place in line, after the release")

    def broken(self, key: str, what: LockInfo | None) -> LockInfo | None:
        """An operator freed the key by force: from now on its holders have no protection."""
        if what is not None:
            self.world.faults["holds_broken"] += 1
            self._record(Kind.BROKEN, bare(key), "")
            self.tell(NOBODY, note="broken")
        return what

    def restart(self, *, keep_data: bool, away: float) -> None:
        self.up = False
        self.watchers.clear()
        self.world.faults["engine_restarts"] += 1
        if not keep_data:
            self.world.faults["data_lost"] += 1
            self._record(Kind.FORGOT, "", "")
            self.store = self._new_store()
            self.tell(NOBODY, note="forgotten")
        self.world.after(away, self._come_back)

    def set_back(self, seconds: float) -> None:
        self.world.faults["clock_set_back"] += 1
        self.wall_ahead -= seconds

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        """What else may befall this kind of server, and how often in a second."""
        if isinstance(faults, StoreFaults) and faults.older_state:
            self._copy()
            yield faults.older_state, self._restart_from_copy

    def _copy(self) -> None:
        self._copies = [*self._copies[-2:], self.store.copied()]
        self.world.after(self.world.random.choice(SNAPSHOTS), self._copy)

    def _restart_from_copy(self) -> None:
        if not self.up:
            return
        self.world.faults["older_state"] += 1
        self.restart(keep_data=True, away=self.world.random.choice((0.01, 0.3, 2.0)))
        self._record(Kind.FORGOT, "", "")
        self.store = self._new_store()
        self.world.random.choice(self._copies)(self.store)
        self.store.inspect(None, self.now())  # what has run out since then is gone
        self.tell(NOBODY, note="forgotten")

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        """Name, claim and what it is, of all that is still there."""
        self.store.inspect(None, self.now())
        for held in self.store.holds():
            yield held.claim.key, held.claim.id, "a hold"
        for name, claim_id in self.store.places_in_line():
            yield name, claim_id, "a place in line"

    def _come_back(self) -> None:
        self.up = True

    def _new_store(self) -> SimStore:
        return self.store_type(self.wall, self._ring, self._news)

    def _ring(self, claim_id: str) -> None:
        pushed = self.store.pushed(claim_id)
        self.network.ring(lambda: self.watchers.get(claim_id, _nobody)(pushed))

    def _news(self, claim_id: str, what: Notice) -> None:
        for listener in self.listeners:
            self.network.ring(lambda listener=listener: listener(claim_id, what))  # type: ignore[misc]

    def _tell_held(self, kind: Kind, held: Held, by: str) -> None:
        claim = held.claim
        until = None if held.expires == float("inf") else self.clock.true(held.expires)
        self._seen[claim.id] = (held.raw, held.expires, bare(claim.key))
        self._record(
            kind,
            bare(claim.key),
            claim.id,
            until=until,
            mode=claim.mode,
            permits=claim.permits,
            owner=claim.owner,
            by=by,
        )

    def _record(
        self, kind: Kind, name: str, claim_id: str, **more: Any
    ) -> None:  # an Event's fields
        self.world.tell("engine", kind, name, claim_id, **more)


def _nobody(_: int | None) -> None:
    """Rung for somebody who does not watch any more."""


def bare(key: str) -> str:
    return key.partition(":")[2]
