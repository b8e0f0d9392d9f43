"""The servers' side: three members, of which one leads, is cut off, and is succeeded.

What the cluster agrees on is one `Store`. The time of a lease is counted by the leader alone: the
next one gives every lease its full time again. A leader that was cut off does not know that it was
succeeded, and answers keep-alives by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from locknut.core.values import LockInfo
from locknut.drivers.etcd.requests import Event
from locknut.errors import BackendError
from tests.simulation.checker.history import Kind
from tests.simulation.etcd.faults import EtcdFaults
from tests.simulation.etcd.line_holds import LineView
from tests.simulation.etcd.store import Store
from tests.simulation.memory.node import NOBODY, Node, Order, SimStore, bare
from tests.simulation.network import Faults, Network
from tests.simulation.process import Clock

if TYPE_CHECKING:
    from tests.simulation.etcd.commands import Question, SimWatch
    from tests.simulation.world import World

ELECTION = (0.1, 1.0)
"""Seconds from the loss of a leader to the next."""
CUT_OFF = (0.5, 6.0)
LAG = 0.05
"""Seconds within which a member learns of another leader, if it is not cut off."""
GLANCE = 0.1
"""How often the leader looks for leases that have run out."""
MEMBERS = 3


class Member:
    """One server."""

    def __init__(self, number: int, clock: Clock) -> None:
        self.number = number
        self.term = 1
        self.leads = False
        """Whether it believes so."""
        self.cut_off = False
        self.clock = clock
        self.leases: dict[int, int] = {}
        """What it knew of when it was cut off."""


class Cluster(Node):
    """Three members; clients choose whom they ask."""

    least_ttl = 1

    def __init__(self, world: World, network: Network) -> None:
        drift = network.faults.drift
        self.members = [
            Member(n, Clock(world.random.uniform(0, 1000), 1 + world.random.uniform(-drift, drift)))
            for n in range(MEMBERS)
        ]
        self.term = 1
        self.leader: Member | None = self.members[0]
        self.members[0].leads = True
        self.expires: dict[int, float] = {}
        """By the leader's clock."""
        self.agreed = Store(self._tell_watches, self.least_ttl)
        self.watches: list[SimWatch] = []
        self.shared: dict[str, Any] = {}
        """The lease of each process, by its name."""
        self.backends: list[Any] = []
        super().__init__(world, network)
        world.after(GLANCE, self._look_for_dead)

    # Questions.

    def asked(self, question: Question) -> None:
        """A question that needs a majority."""
        member = self.members[question.member]
        if member.cut_off or self.leader is None or self.leader.cut_off or not self.up:
            return
        try:
            question.answered(self._do(question), member.term)
        except BackendError as refused:
            question.refused(refused)

    def _do(self, question: Question) -> Any:
        answer = question.run(self)
        order = Order(question.actors, NOBODY.command)
        if question.breaks and getattr(answer, "succeeded", False):
            self.broken(question.breaks, LockInfo(""))
        self.tell(order)
        return answer

    def kept_alive(self, question: Question, lease: int) -> None:
        """The leader answers this by itself: the one that the member believes in."""
        member = self.members[question.member]
        term = member.term  # before the leader is asked
        if not self.up:
            return
        if member.leads and (member.cut_off or member is not self.leader):
            self.world.faults["deposed_leader_asked"] += 1
            question.answered(member.leases.get(lease, 0), term)
        elif not member.cut_off and self.leader is not None and not self.leader.cut_off:
            ttl = self.agreed.leases.get(lease, 0)
            if ttl:
                self.expires[lease] = self._leaders_time() + ttl
            question.answered(ttl, term)

    def granted(self, ttl: int, lease: int) -> tuple[int, int]:
        number, granted = self.agreed.grant(ttl, lease)
        self.expires[number] = self._leaders_time() + granted
        return number, granted

    def _leaders_time(self) -> float:
        clock = self.leader.clock if self.leader else self.clock
        return clock.read(self.world.now)

    def _look_for_dead(self) -> None:
        """What has run out, and a majority agrees to revoke."""
        self.world.after(GLANCE, self._look_for_dead)
        if self.leader is None or self.leader.cut_off or not self.up:
            return
        now = self._leaders_time()
        for lease in [each for each, until in self.expires.items() if until <= now]:
            del self.expires[lease]
            self.agreed.revoke(lease)
            self.tell(NOBODY)

    def _tell_watches(self, event: Event) -> None:
        for watch in list(self.watches):
            watch.see(event)

    # Faults.

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        if isinstance(faults, EtcdFaults):
            yield faults.leader_cut_off, self._cut_off_leader
            yield faults.follower_cut_off, self._cut_off_follower
            yield faults.leader_moves, self._move
            yield faults.compacted, self._compact
            yield faults.leases_revoked, self._revoke_some

    def restart(self, *, keep_data: bool, away: float) -> None:
        """All members at once; nothing is lost that a majority agreed to."""
        del keep_data
        if self.up:
            super().restart(keep_data=True, away=away)

    def _come_back(self) -> None:
        super()._come_back()
        self._elect()

    def _healthy(self) -> bool:
        return self.up and self.leader is not None and not any(m.cut_off for m in self.members)

    def _cut_off_leader(self) -> None:
        if self._healthy() and self.leader is not None:
            self._cut_off(self.leader)
            self.world.after(self.world.random.uniform(*ELECTION), self._elect)

    def _cut_off_follower(self) -> None:
        if self._healthy():
            others = [member for member in self.members if member is not self.leader]
            self._cut_off(self.world.random.choice(others))

    def _cut_off(self, member: Member) -> None:
        kind = "leader_cut_off" if member.leads else "follower_cut_off"
        self.world.faults[kind] += 1
        member.cut_off = True
        member.leases = dict(self.agreed.leases)
        self.world.after(self.world.random.uniform(*CUT_OFF), lambda: self._heal(member))

    def _heal(self, member: Member) -> None:
        member.cut_off = False
        if self.leader is None or (self.leader is member and member.term < self.term):
            self._elect()
        member.leads = self.leader is member
        member.term = self.term

    def _move(self) -> None:
        if self._healthy():
            self.world.faults["leader_moves"] += 1
            self._elect()

    def _elect(self) -> None:
        """A majority chooses one of those that are not cut off; it counts all leases anew."""
        if not self.up:
            return
        able = [m for m in self.members if not m.cut_off and m is not self.leader] or self.members
        before = self.leader
        if before is not None:
            before.leases = dict(self.agreed.leases)
        self.term += 1
        self.leader = self.world.random.choice(able)
        now = self._leaders_time()
        self.expires = {lease: now + ttl for lease, ttl in self.agreed.leases.items()}
        self.leader.term, self.leader.leads = self.term, True
        for member in self.members:
            if member is not self.leader:
                lag = self.world.random.uniform(0.0, LAG)
                self.world.after(lag, lambda member=member: self._learn(member))  # type: ignore[misc]

    def _learn(self, member: Member) -> None:
        if not member.cut_off:
            member.term, member.leads = self.term, member is self.leader

    def _compact(self) -> None:
        self.world.faults["compacted"] += 1
        self.agreed.compact()

    def _revoke_some(self) -> None:
        """As `etcdctl lease revoke`: nobody is excluded any more by what the process held."""
        ours = [shared.id for shared in self.shared.values() if shared.id in self.agreed.leases]
        if ours:
            self.world.faults["leases_revoked"] += 1
            self._record(Kind.FORGOT, "", "")
            lease = self.world.random.choice(ours)
            self.expires.pop(lease, None)
            self.agreed.revoke(lease)
            self.tell(NOBODY, note="revoked")

    # What the history sees.

    def _new_store(self) -> SimStore:
        self.view = LineView(self)
        return self.view

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        for held in self.view.holds():
            yield bare(held.claim.key), held.claim.id, "a hold"
        for name, claim_id in self.view.places_in_line():
            yield name, claim_id, "a place in line"
        for backend in self.backends:
            yield from backend.remembers()
