"""Bugs of locks in a cache: each is what somebody has written, and each must be found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from locknut.backends.memcached import recipe
from locknut.backends.memcached.backend import MemcachedBackend
from locknut.backends.memcached.handles import Handle, Instance
from locknut.backends.memcached.item_keys import key_of
from locknut.backends.memcached.recipe import Item
from locknut.core.values import Answer, Busy, Claim, Granted, Renewal, Renewed
from locknut.drivers.memcached.replies import Reply
from locknut.drivers.memcached.server_identity import Greeted
from locknut.errors import BackendUnavailable
from tests.simulation.bugs import Bug
from tests.simulation.memcached.backend import SimMemcached
from tests.simulation.memcached.connection import Connection
from tests.simulation.memcached.engine import MEMCACHED, PATIENT
from tests.simulation.memcached.faults import CacheFaults
from tests.simulation.sizes import BOUT, FULL, Size
from tests.simulation.variant import Patch, Variant


def _life(claim: Claim) -> int:
    return math.ceil(claim.ttl or 0.0) + recipe.EARLY


class DeletesWithoutCas(SimMemcached):
    """Looks whose it is, and then deletes whatever is there."""

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        by, key = self._by(claim), key_of(claim.key)
        self._handles.doubt(claim.id)
        item, _ = await by._look(key)
        mine = item is not None and item.claim_id == claim.id
        if mine:
            await by._server.ask([b"md %s\r\n" % key])
        self._withdrawn(claim)
        return mine


class RenewsByTouch(SimMemcached):
    """Looks whose it is, and then touches whatever is there: a CAS id keeps nobody from that."""

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        by = self._by(*claims, renews=True)
        answers: list[Renewed] = []
        for claim in claims:
            key = key_of(claim.key)
            self._handles.doubt(claim.id)
            item, _ = await by._look(key)
            if item is None or item.claim_id != claim.id:
                answers.append(Renewal.LOST)
                continue
            await by._server.ask([b"mg %s T%d\r\n" % (key, _life(claim))])
            answers.append(Renewal.HELD)
        return answers


class BarsByWhatIsLeft(SimMemcached):
    """Who gives up an attach writes the detached hold anew for what was left when it looked."""

    async def _bar(self, claim: Claim, key: bytes, item: Item, handle: Handle) -> bool:
        left = max(1, int(item.left) + recipe.EARLY)
        return await self._change(key, handle, recipe.kept(item, claim.id), left) is not None


class AddsItsClaim(SimMemcached):
    """Adds the claim itself where there is no item: one round trip, and it may come late."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        by, key = self._by(claim), key_of(claim.key)
        value, ttl = recipe.claimed(claim), _life(claim)
        add = b"ms %s %d T%d ME c\r\n%s\r\n" % (key, len(value), ttl, value)
        (reply,), server = await by._server.ask([add])
        if reply.code != b"HD" or by._too_young(server) > 0:
            return await super().attempt(claim, patience)
        raw = recipe.raw_of(server.start, reply.cas)
        self._handles.doubt(claim.id)
        return Granted(raw)

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        """And deletes it, by its CAS id."""
        by, key = self._by(claim), key_of(claim.key)
        self._handles.doubt(claim.id)
        item, server = await by._look(key)
        mine = item is not None and item.claim_id == claim.id
        if mine and item is not None:
            await by._server.ask([b"md %s C%d\r\n" % (key, item.cas)], server.instance)
        self._withdrawn(claim)
        return mine


class SilenceIsNo(SimMemcached):
    """A claim that got no answer was not granted, so nobody has to give it back."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        try:
            return await super().attempt(claim._replace(waits=False), patience)
        except BackendUnavailable:
            return Busy(0.05, queued=False)


class AnyInstance(Connection):
    """A CAS id is a CAS id, whoever counted it."""

    async def ask(
        self, packed: Sequence[bytes], instance: Instance | None = None
    ) -> tuple[list[Reply], Greeted]:
        del instance
        return await super().ask(packed)


class TrustsEveryInstance(SimMemcached):
    """Does not ask which instance it talks to."""

    connection_type = AnyInstance


class NeverTooYoung(SimMemcached):
    """Grants as soon as the server is there, though its start is known to the second only."""

    delay = 0.0


def remembers_what_it_freed(_: object) -> Callable[..., float]:
    """On a server that was just started too, and who knows a free item does not look."""
    looks = MemcachedBackend._too_young
    freed = "_release_by_look"

    def too_young(self: MemcachedBackend, server: Greeted) -> float:
        import sys  # who asks

        return 0.0 if sys._getframe(1).f_code.co_name == freed else looks(self, server)

    return too_young


def no_second_more(_: object) -> int:
    return 0


def for_a_while(_: object) -> Callable[..., int]:
    """From what the server's clock shows, whether anybody turns it or not."""
    return lambda ttl, _clock: math.ceil(ttl or 0.0) + recipe.EARLY


def wrong(
    backend: type[SimMemcached],
    rules: str,
    faults: CacheFaults,
    size: Size = FULL,
    sound: Variant = MEMCACHED,
    only: tuple[str, ...] = ("mutex",),
) -> Bug:
    """The engine does something else than the recipe."""
    return Bug(replace(sound, backend=backend), rules, faults, only, sound=sound, size=size)


_STOPS = CacheFaults(processes_stop=1.0, slow=0.4)
_BOTH_STOP = CacheFaults(processes_stop=1.0, server_stops=1.0, slow=0.4)
_LATE = CacheFaults(late=0.2, slow=0.2, request_lost=0.05)
_LOSSY = CacheFaults(reply_lost=0.2, slow=0.1)
_LASTING = replace(MEMCACHED, ttls=(60.0,))
"""What nobody gives back is still there in the end."""
_RESTARTS = CacheFaults(engine_restarts=2.0)
_SOME_RESTARTS = CacheFaults(engine_restarts=0.5, slow=0.2, processes_stop=0.3)

BUGS: dict[str, Bug] = {
    "memcached-delete-without-cas": wrong(DeletesWithoutCas, "ae", _STOPS, BOUT),
    "memcached-renew-by-touch": wrong(RenewsByTouch, "ade", _BOTH_STOP, BOUT)._replace(seeds=400),
    "memcached-bars-by-what-is-left": wrong(BarsByWhatIsLeft, "e", _BOTH_STOP, BOUT)._replace(
        seeds=400
    ),
    "memcached-claims-by-add": wrong(AddsItsClaim, "g", _LATE, BOUT),
    "memcached-silence-is-no": wrong(SilenceIsNo, "g", _LOSSY, sound=_LASTING, only=("twin",)),
    "memcached-number-of-the-same-second": wrong(NeverTooYoung, "b", _RESTARTS, BOUT),
    "memcached-cas-of-another-instance": wrong(TrustsEveryInstance, "abde", _SOME_RESTARTS),
    "memcached-no-lost-second": Bug(
        replace(MEMCACHED, patches=(Patch(recipe, "EARLY", no_second_more),)),
        "ad",
        CacheFaults(),
        sound=MEMCACHED,
    ),
    "memcached-life-by-a-clock-that-stands-still": Bug(
        replace(MEMCACHED, patches=(Patch(recipe, "end_of", for_a_while),)),
        "ad",
        CacheFaults(clock_stalls=2.0),
        sound=MEMCACHED,
    ),
    "memcached-freed-on-a-young-server": Bug(
        replace(PATIENT, patches=(Patch(MemcachedBackend, "_too_young", remembers_what_it_freed),)),
        "ab",
        CacheFaults(engine_restarts=0.3, slow=0.1, processes_stop=0.3, drift=0.004),
        sound=PATIENT,
        size=BOUT,
    ),
    "memcached-restart-without-patience": wrong(
        SimMemcached, "a", CacheFaults(engine_restarts=0.5, processes_stop=1.0), sound=PATIENT
    ),
}
