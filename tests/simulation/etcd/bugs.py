"""Bugs of locks on etcd, most of them known from other clients: each must be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from locknut.backends.etcd import key_names, key_swaps, recipe
from locknut.backends.etcd.backend import EtcdBackend
from locknut.backends.etcd.leased_link import LeasedLink
from locknut.backends.etcd.recipe import Contender, Verdict
from locknut.backends.etcd.shared_lease import SharedLease
from locknut.core.values import Answer, Claim, Granted, Mode, Renewal, Renewed
from locknut.drivers.etcd.requests import Compare, Relation, Target
from tests.simulation.bugs import Bug
from tests.simulation.etcd.backend import SESSION_TTL, Brief, SimEtcd
from tests.simulation.etcd.cluster import Cluster
from tests.simulation.etcd.engine import ETCD
from tests.simulation.etcd.faults import EtcdFaults
from tests.simulation.sizes import BOUT, FULL, Size
from tests.simulation.variant import Patch, Variant


def believed(
    *patches: Patch,
    rules: str,
    faults: EtcdFaults = EtcdFaults(),  # noqa: B008  # frozen
    only: tuple[str, ...] = ("mutex",),
    sound: Variant = ETCD,
    size: Size = FULL,
) -> Bug:
    """The client believes something else than the recipe."""
    variant = replace(sound, patches=patches)
    return Bug(variant, rules, faults, only, sound=sound, size=size)


def behaves(
    backend: type[SimEtcd],
    rules: str,
    faults: EtcdFaults,
    only: tuple[str, ...] = ("mutex",),
    size: Size = FULL,
) -> Bug:
    """The client does something else."""
    sound = _BRIEF if issubclass(backend, Brief) else ETCD
    return Bug(replace(sound, backend=backend), rules, faults, only, sound=sound, size=size)


class KeepsAliveOnly(Brief):
    """A keep-alive that is answered is a renewal, as in most clients of etcd."""

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        lease = await self.link.keep_alive(self.shared.id)
        answer = Renewal.HELD if lease.ttl else Renewal.LOST
        return [answer if self.shared.holds(claim) else Renewal.LOST for claim in claims]


class BelievesTheRing(SimEtcd):
    """Whoever waited and was rung holds the lock: nobody looks whether its own key is there
    (etcd-io/etcd#11456).
    """

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        state = self.shared.states.get(claim.id)
        waited = state is not None and state.created and state.signal is not None
        if state is not None and waited and state.look is None:
            state.granted = True
            return Granted(state.created, claim.ttl)
        return await super().attempt(claim, patience)


class LeavesNoTombstone(SimEtcd):
    """A release is a delete, and nothing else."""

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        released = await EtcdBackend.release(self._by(claim), claim)
        self._withdrawn(claim)
        return released


class Stingy(Cluster):
    """Grants a second less than it is asked for."""

    def granted(self, ttl: int, lease: int) -> tuple[int, int]:
        return super().granted(max(1, ttl - 1), lease)


def as_requested(opened: Any) -> Callable[..., bool]:
    """The time of a lease is what was asked for."""

    def believes(shared: SharedLease, lease: Any, sent: float, key: bytes, stamp: int) -> bool:
        found: bool = opened(shared, lease._replace(ttl=SESSION_TTL), sent, key, stamp)
        return found

    return believes


def kept_as_requested(kept: Any) -> Callable[..., None]:
    def believes(shared: SharedLease, lease: Any, sent: float, at: float) -> None:
        kept(shared, lease._replace(ttl=SESSION_TTL), sent, at)

    return believes


def lease_alone(_: Any) -> Callable[[bytes, int, str], bytes]:
    """The name of a key is that of its lease, as in etcd's own clients."""
    return lambda prefix, lease, claim_id: b"%s%x" % (prefix, lease)


def anybodys(_: Any) -> Callable[[bytes], str]:
    return lambda key: "0" * 32


def with_its_id(shown: Any) -> Callable[..., bytes]:
    def says(link: LeasedLink, claim: Claim, **more: Any) -> bytes:
        found: bytes = shown(link, claim, **{"id": claim.id, **more})
        return found

    return says


def nothing_compared(_: Any) -> Callable[[Any], list[Compare]]:
    return lambda state: []


def successor(verdict: Any) -> Callable[[Sequence[Contender], Mode, int], Verdict]:
    """Who waits watches the first in line, and takes its going for its own turn."""

    def first_only(ahead: Sequence[Contender], mode: Mode, permits: int) -> Verdict:
        found: Verdict = verdict(ahead[:1] if len(ahead) < 2 else ahead[1:-1], mode, permits)
        return found

    return first_only


def whatever_it_is(_: Any) -> Callable[[bytes, int], Compare]:
    """A detached key is taken over without a look at whether somebody else was faster."""
    return lambda key, _: Compare(key, Target.VERSION, Relation.GREATER, 0)


def beside_writers(verdict: Any) -> Callable[[Sequence[Contender], Mode, int], Verdict]:
    """A reader looks at the one before it alone."""

    def nearest(ahead: Sequence[Contender], mode: Mode, permits: int) -> Verdict:
        found: Verdict = verdict(ahead[-1:] if mode is Mode.SHARED else ahead, mode, permits)
        return found

    return nearest


_CUT_OFF = EtcdFaults(leader_cut_off=0.4)
_LATE = EtcdFaults(late=0.1, slow=0.1)
_STOPS = EtcdFaults(processes_stop=1.0, slow=0.2)
_STINGY = replace(ETCD, node=Stingy)
_BRIEF = replace(ETCD, backend=Brief, ttls=(0.3, 0.5))

BUGS: dict[str, Bug] = {
    "etcd-keep-alive-believed": behaves(KeepsAliveOnly, "ad", _CUT_OFF),
    "etcd-requested-ttl": believed(
        Patch(SharedLease, "opened", as_requested),
        Patch(SharedLease, "kept", kept_as_requested),
        rules="ad",
        faults=_STOPS,
        sound=_STINGY,
    ),
    "etcd-ring-believed": behaves(BelievesTheRing, "abdeg", _STOPS, ("fair",)),
    "etcd-lease-alone-in-the-key": believed(
        Patch(key_names, "own", lease_alone),
        Patch(key_names, "claim_id_in", anybodys),
        Patch(LeasedLink, "shown", with_its_id),
        Patch(key_swaps, "still_ours", nothing_compared),
        rules="abdeg",
        faults=_LATE,
    ),
    "etcd-deleted-by-name": believed(
        Patch(key_swaps, "still_ours", nothing_compared),
        rules="abdeg",
        faults=_LATE,
    ),
    "etcd-no-tombstone": behaves(LeavesNoTombstone, "g", EtcdFaults(late=0.2)),
    "etcd-wrong-predecessor": believed(
        Patch(recipe, "verdict", successor), rules="abdefg", only=("fair",), size=BOUT
    ),
    "etcd-swap-without-comparing": believed(
        Patch(key_swaps, "modified", whatever_it_is),
        rules="abde",
        faults=EtcdFaults(slow=0.3),
        only=("parcel",),
    ),
    "etcd-reader-beside-writer": believed(
        Patch(recipe, "verdict", beside_writers), rules="a", only=("shelf",)
    ),
}
