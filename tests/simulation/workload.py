"""What simulated users do with locks: everything the API allows, at random."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from locknut.core.lock_request import LockOptions
from locknut.core.values import Capability, Mode
from tests.simulation.checker.history import Kind
from tests.simulation.coroutines import Cancelled
from tests.simulation.customer import Customer
from tests.simulation.recorded_client import Visit
from tests.simulation.resource import Guard, Resource
from tests.simulation.sizes import FULL, Size
from tests.simulation.variant import Variant

FOREVER = float("inf")
TIMEOUTS = (0.0, 0.05, 1.0, 4.0, FOREVER)
DETACHED = 3.0
"""A parcel is detached for so many times the ttl of its lock."""


class Place(NamedTuple):
    """A name, and the ways in which it is locked."""

    name: str
    options: tuple[LockOptions, ...]
    resource: Resource | None = None
    """What is guarded by it, where holds are exclusive."""
    pace: float = 8.0
    """How many steps a holder takes in a second."""
    beside: Place | None = None
    """What is taken together with it now and then."""
    detached: float = 0.0
    """How often its holder does not release it, but detaches it for others to attach."""
    detached_for: float | None = None
    """For how long; None: for its own ttl."""


class Parcel(NamedTuple):
    """A detached hold on its way to others."""

    place: Place
    options: LockOptions
    text: str
    story: str
    """Of whoever had it."""


_NEEDED = {
    "fair": Capability.FAIR,
    "permits": Capability.PERMITS,
    "shelf": Capability.SHARED,
    "owned": Capability.OWNERS,
}
Give = Callable[[Parcel], None]


def places(
    random: Random, only: tuple[str, ...], guard: Guard, variant: Variant, most: int
) -> list[Place]:
    """A few names, each used in a way of its own that the engine can serve; or `grip`, which is
    kept to the end of its ttl more often than not; or `parcel`, which goes from hand to hand.
    """
    ttl = random.choice(variant.ttls)
    pace = random.choice((8.0, 8.0, 300.0))
    detached = 0.05 if Capability.DETACHING in variant.backend.capabilities else 0.0
    all_places = {
        "mutex": Place("mutex", _mutex(ttl), Resource("mutex", guard), detached=detached),
        "fair": Place("fair", (LockOptions(ttl, fair=True),), Resource("fair", guard)),
        "permits": Place("permits", (LockOptions(ttl, mode=Mode.PERMIT, permits=2),)),
        "shelf": Place("shelf", (_reader(ttl), _reader(ttl), _writer(ttl))),
        "owned": Place("owned", tuple(LockOptions(ttl, owner=owner) for owner in ("ann", "bob"))),
    }
    twin = all_places["twin"] = Place("twin", _mutex(ttl), Resource("twin", guard), pace)
    all_places["pair"] = Place("pair", _mutex(ttl), Resource("pair", guard), beside=twin)
    for place, needed in _NEEDED.items():
        if needed not in variant.backend.capabilities:
            del all_places[place]
    names = only or tuple({random.choice(("mutex", *all_places)): None for _ in range(most)})
    if only == ("grip",):
        return [Place("grip", (LockOptions(ttl, auto_renew=False),), Resource("grip", guard), 2.0)]
    if only == ("parcel",):
        parcel = Place("parcel", (LockOptions(ttl),), Resource("parcel", guard))
        return [parcel._replace(detached=0.7, detached_for=DETACHED * ttl)]
    return [all_places[name]._replace(pace=pace) for name in names]


def _mutex(ttl: float) -> tuple[LockOptions, ...]:
    plain = LockOptions(ttl, auto_renew=False)
    return (LockOptions(ttl), LockOptions(ttl), plain, LockOptions(ttl * 1.5, max_hold=ttl * 2))


def _reader(ttl: float) -> LockOptions:
    return LockOptions(ttl, mode=Mode.SHARED, hand_over=False)


def _writer(ttl: float) -> LockOptions:
    return LockOptions(ttl, hand_over=False)


class Worker:
    """One thread or task that locks, works and unlocks until it is told to stop."""

    def __init__(
        self,
        customer: Customer,
        chosen: list[Place],
        give: Give,
        size: Size = FULL,
    ) -> None:
        self._customer = customer
        self._places = chosen
        self._size = size
        self._until = size.busy
        """From then on nothing new is begun, and nothing held for long."""
        self._give = give
        """Where the text of a detached hold goes, for others to attach."""
        self._world = customer.process.world
        self._random = self._world.random
        self._former: deque[Visit] = deque(maxlen=3)
        """Leases that users keep after the release: nothing may befall them any more (S18)."""

    async def work(self) -> None:
        for _ in range(self._size.rounds):
            if self._world.now >= self._until:
                return
            try:
                await self._customer.sleep(self._random.expovariate(1 / self._size.rest))
                await self._once(self._random.choice(self._places))
            except Cancelled:
                self._world.faults["tasks_cancelled"] += 1

    async def take_over(self, parcel: Parcel) -> None:
        place, options, text, story = parcel
        lease = await self._customer.attach(place.name, options, text, story)
        if lease is not None:
            await self._use(lease, place, options)

    async def _once(self, place: Place) -> None:
        options = self._random.choice(place.options)
        timeout = self._random.choice(TIMEOUTS)
        if place.beside is not None and self._random.random() < 0.6:
            await self._both(place, place.beside, options, timeout)
            return
        lease = await self._customer.acquire(place.name, options, timeout)
        if lease is not None:
            await self._use(lease, place, options)

    async def _use(self, lease: Visit, place: Place, options: LockOptions) -> None:
        """As in `with lock:`; the lease is released however this ends."""
        mine = [lease]
        try:
            for _ in range(self._random.choice((0, 1, 1, 2, 6, 16))):
                await self._customer.sleep(self._random.expovariate(place.pace))
                if self._world.now >= self._until:
                    break
                if not self._customer.check(lease) or not await self._step(lease, place):
                    break
            if options.mode is Mode.EXCLUSIVE and lease.held:
                await self._leave_otherwise(mine, place, options)
        finally:
            self._former.extend(mine)
            for kept in mine:
                await self._customer.release(kept)

    async def _both(
        self, place: Place, beside: Place, options: LockOptions, timeout: float
    ) -> None:
        """As in `with locks.all(...):`."""
        names = place.name, beside.name
        leases = await self._customer.acquire_all(names, options, timeout)
        if leases is None:
            return
        self._former.extend(leases)
        try:
            for _ in range(self._random.choice((0, 1, 2, 6))):
                await self._customer.sleep(self._random.expovariate(place.pace))
                for lease, each in zip(leases, (place, beside), strict=True):
                    if not self._customer.check(lease) or not await self._step(lease, each):
                        return
        finally:
            await self._customer.release_all(leases)

    async def _step(self, lease: Visit, place: Place) -> bool:
        """Something under the lock; False when the resource refused it."""
        choice = self._random.random()
        if choice < 0.003:
            await self._customer.force(place.name)
        elif choice < 0.02:
            await self._customer.look(place.name)
        elif choice < 0.1:
            await self._customer.renew(lease)
        elif choice < 0.2 and place.name != "permits":
            await self._customer.nest(lease, 0.01)
        elif place.resource is not None:
            return await self._add_one(lease, place.resource)
        return True

    async def _add_one(self, lease: Visit, resource: Resource) -> bool:
        """Read, wait, write: what a guard must keep whole."""
        process, fence, story = self._customer.process, lease.fence, lease.story
        if await resource.step(process, story, Kind.ENTERED, fence) is None:
            return False
        value = await resource.step(process, story, Kind.READ, fence)
        if value is None:
            return False
        await self._customer.sleep(self._random.expovariate(20))
        return await resource.step(process, story, Kind.WROTE, fence, value + 1) is not None

    async def _leave_otherwise(self, mine: list[Visit], place: Place, options: LockOptions) -> None:
        """Downgrade a write to a read; or, now and then, detach the hold for others."""
        if place.name == "shelf":
            await self._customer.downgrade(mine, place.options[0])
            await self._customer.sleep(self._random.expovariate(8))
            self._customer.check(mine[0])
        elif self._random.random() < place.detached and self._in_time_for(place):
            if place.detached_for is not None:  # while a renewal is under way, more often than not
                await self._customer.sleep(
                    place.detached_for / DETACHED * self._random.uniform(0.2, 0.5)
                )
            lease = mine.pop()
            text = await self._customer.detach(lease, place.detached_for)
            if text is not None:
                self._give(Parcel(place, options, text, lease.story))

    def _in_time_for(self, place: Place) -> bool:
        """What goes from hand to hand comes to an end."""
        return place.detached_for is None or self._world.now < self._until
