"""The keeper is on time: nothing that is slow or to be given back holds up what is to be kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

import locknut
from locknut.backends.memory import MemoryEngine
from locknut.core import renewing
from locknut.core.holding import Hold
from locknut.core.lock_request import LockOptions
from locknut.core.timetable import BATCH
from locknut.core.values import Answer, Capability, Claim, Granted, HeldUntil, Notice, Renewal
from locknut.errors import BackendError, BackendUnavailable
from tests.simulation.checker import Assumptions, check
from tests.simulation.checker.history import Kind
from tests.simulation.customer import Customer
from tests.simulation.memory.backend import REPLY_WITHIN, SimBackend
from tests.simulation.memory.node import Node
from tests.simulation.network import CALM, Network
from tests.simulation.process import SimSignal
from tests.simulation.variant import REAL, Variant
from tests.simulation.world import World

TTL = 3.0
TO_UNDO = 20
PATIENCE = 20.0


class NoReleases(SimBackend):
    """Answers everything but releases."""

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        await SimSignal(self.process).wait(self.process.now() + REPLY_WITHIN)
        raise BackendUnavailable("no answer in time")

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        return [await self.release(claim, outcome_unknown=outcome_unknown) for claim in claims]


class OneByOne(NoReleases):
    """Knows no command for several at once."""

    batches = False


@pytest.mark.parametrize("backend", [NoReleases, OneByOne])
def test_a_hold_is_renewed_while_many_claims_wait_to_be_undone(backend: type[SimBackend]) -> None:
    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=backend))
    held: list[bool] = []

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(TTL), 1.0)
        assert lease is not None
        for i in range(TO_UNDO):
            claim = Claim(f"sim:other-{i}", f"{i:032x}", TTL)
            customer.client.keeper.undo(claim, outcome_unknown=True)
        await customer.sleep(TO_UNDO * REPLY_WITHIN)
        held.append(lease.held)

    customer.process.spawn(hold(), "holder")
    world.run(TO_UNDO * REPLY_WITHIN + 2)
    customer.process.end()
    assert held == [True]


def test_what_is_given_back_once_more_leaves_a_tombstone() -> None:
    """The first release may arrive after all, and whatever was sent before it, too (L3)."""
    told: list[bool] = []

    class LosesTheFirst(SimBackend):
        async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
            told.append(outcome_unknown)
            if len(told) == 1:
                raise BackendUnavailable("no answer in time")
            return await super().release(claim, outcome_unknown=outcome_unknown)

    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=LosesTheFirst))

    async def owe() -> None:
        customer.client.keeper.undo(Claim("sim:name", "1" * 32, 60.0), outcome_unknown=False)

    customer.process.spawn(owe(), "owes")
    world.run(PATIENCE)
    customer.process.end()
    assert told == [False, True]


def test_one_claim_that_cannot_be_given_back_keeps_no_other() -> None:
    claims = [Claim(f"sim:{n}", f"{n:032x}", 60.0) for n in range(3)]
    given_back: list[Claim] = []

    class RefusesTheFirst(SimBackend):
        async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
            if claim == claims[0]:
                raise BackendError("this one not")
            given_back.append(claim)
            return True

        async def release_all(
            self, claims: Sequence[Claim], *, outcome_unknown: bool = False
        ) -> Any:
            raise BackendError("not all of these")

    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=RefusesTheFirst))

    async def owe() -> None:
        for claim in claims:
            customer.client.keeper.undo(claim, outcome_unknown=False)

    customer.process.spawn(owe(), "owes")
    world.run(PATIENCE)
    customer.process.end()
    assert given_back == claims[1:]


class SlowAnswers(Network):
    """Requests arrive at once, answers take a while."""

    def reply(self, deliver: Callable[[], None]) -> None:
        self.world.after(0.2, deliver)


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    """Not from its answer: the engine may have counted from the sending on (S1)."""
    sent: list[float] = []
    anchors: list[float] = []

    class Noted(SimBackend):
        async def renew(self, claims: Sequence[Claim]) -> Any:
            sent.append(self.process.now())
            return await super().renew(claims)

    world = World(0)
    node = Node(world, SlowAnswers(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=Noted))

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(TTL), 1.0)
        assert lease is not None
        await customer.sleep(TTL / 2)
        anchors.append(lease._hold.anchor)
        await customer.release(lease)

    customer.process.spawn(hold(), "holder")
    world.run(TTL)
    assert anchors == sent


SLOW = 2.5


class SlowRenewals(SimBackend):
    """Each renewal takes its time, however many holds it is for."""

    released: ClassVar[list[float]] = []

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Notice]:
        await SimSignal(self.process).wait(self.process.now() + SLOW)
        return await super().renew(claims)

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self.released.append(self.process.now())
        return await super().release(claim, outcome_unknown=outcome_unknown)


def test_an_engine_that_answers_every_renewal_late_costs_no_hold() -> None:
    """The next renewal counts from the sending of this one, and not from its answer."""
    ttl = 7.0
    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(keeper=SlowRenewals))
    held: list[bool] = []

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(ttl), 1.0)
        assert lease is not None
        await customer.sleep(5 * ttl)
        held.append(lease.held)

    customer.process.spawn(hold(), "holder")
    world.run(5 * ttl + 1)
    customer.process.end()
    assert held == [True]


def test_a_keeper_that_always_renews_cleans_up_as_well() -> None:
    """With so many holds that the first of them are due again when the last ones were renewed."""
    ttl, batches = 12.0, 3
    round_of_all = batches * SLOW
    assert ttl / 3 < round_of_all - SLOW < round_of_all < ttl
    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(keeper=SlowRenewals))
    SlowRenewals.released.clear()
    owed: list[float] = []

    async def hold() -> None:
        names = [f"name-{n}" for n in range((batches - 1) * BATCH + 1)]
        leases = [await customer.acquire(name, LockOptions(ttl), 1.0) for name in names]
        await customer.sleep(ttl)
        owed.append(customer.process.now())
        customer.client.keeper.undo(Claim("sim:other", "1" * 32, 600.0), outcome_unknown=False)
        await customer.sleep(3 * ttl)
        assert all(lease is not None and lease.held for lease in leases)

    customer.process.spawn(hold(), "holder")
    world.run(5 * ttl)
    customer.process.end()
    (released,) = SlowRenewals.released[:1]
    assert released - owed[0] <= 2 * round_of_all


def test_a_renewal_without_an_answer_is_none() -> None:
    held: list[bool] = []

    class NoRenewals(SimBackend):
        async def renew(self, claims: Sequence[Claim]) -> Any:
            raise BackendUnavailable("no answer in time")

    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=NoRenewals))

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(TTL), 1.0)
        assert lease is not None
        for _ in range(2):
            await customer.sleep(TTL * 0.9)
            held.append(lease.held)

    customer.process.spawn(hold(), "holder")
    world.run(2 * TTL)
    customer.process.end()
    assert held == [True, False]


def test_the_keeper_survives_an_error_that_nobody_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0)
    customer = Customer(world.process("p"), Node(world, Network(world, CALM)), REAL)
    heard: list[object] = []
    held: list[bool] = []

    def fail(_: object, __: object, what: object, ___: object) -> None:
        heard.append(what)
        raise ZeroDivisionError

    monkeypatch.setattr(renewing, "noticed", fail)

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(TTL), 1.0)
        assert lease is not None
        customer.client.keeper.on_notice(None, Renewal.HELD)
        await customer.sleep(3 * TTL)
        held.append(lease.held)

    customer.process.spawn(hold(), "holder")
    world.run(4 * TTL)
    customer.process.end()
    assert heard == [Renewal.HELD] * 2  # once more, because it may pass; not for ever
    assert held == [True]


def test_a_notice_about_all_holds_is_not_about_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session ends, and the next one has granted something before the keeper looks."""
    world = World(0)
    customer = Customer(world.process("p"), Node(world, Network(world, CALM)), REAL)
    keeper = customer.client.keeper
    held: list[bool] = []

    async def hold() -> None:
        before = await customer.acquire("before", LockOptions(TTL), 1.0)
        assert before is not None
        with monkeypatch.context() as asleep:
            asleep.setattr(keeper, "ring", lambda: None)
            asleep.setattr(keeper.schedule, "ring", lambda: None)
            keeper.on_notice(None, Renewal.LOST)
            later = await customer.acquire("later", LockOptions(TTL), 1.0)
        keeper.ring()
        await customer.sleep(TTL / 2)
        assert later is not None
        held.extend((before.held, later.held))

    customer.process.spawn(hold(), "holder")
    world.run(2 * TTL)
    customer.process.end()
    assert held == [False, True]


def test_the_loss_of_a_grant_that_was_long_on_its_way_is_told_on_time() -> None:
    world = World(0)
    customer = Customer(world.process("p"), Node(world, SlowAnswers(world, CALM)), REAL)

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(TTL, auto_renew=False), 1.0)
        assert lease is not None
        await customer.sleep(2 * TTL)

    customer.process.spawn(hold(), "holder")
    world.run(2 * TTL)
    customer.process.end()
    assert check(world.history, Assumptions(told_within=0.05)) == []
    assert Kind.LOST in {event.kind for event in world.history}


class ShortGrants(SimBackend):
    """Grants are for a second, until they are confirmed; counts the confirmations."""

    renewals = 0

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await super().attempt(claim, patience)
        if isinstance(answer, Granted):
            return answer._replace(ttl=1.0, anchor=self.process.now())
        return answer

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Notice]:
        ShortGrants.renewals += 1
        return await super().renew(claims)


@pytest.mark.parametrize("auto_renew", [True, False])
def test_a_short_grant_is_confirmed_before_a_stall_can_cost_it(auto_renew: bool) -> None:
    """Like every contended one on Redis; but not while the hold is over by itself."""
    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=ShortGrants))
    left: list[float] = []
    ShortGrants.renewals = 0

    async def hold() -> None:
        brief = await customer.acquire("name", LockOptions(10 * TTL, auto_renew=auto_renew), 1.0)
        assert brief is not None
        await customer.sleep(0.02)
        await customer.release(brief)
        await customer.sleep(0.1)
        assert ShortGrants.renewals == 0
        lease = await customer.acquire("name", LockOptions(10 * TTL, auto_renew=auto_renew), 1.0)
        assert lease is not None
        await customer.sleep(0.1)
        left.append(lease.remaining)
        assert ShortGrants.renewals == 1

    customer.process.spawn(hold(), "holder")
    world.run(2)
    customer.process.end()
    assert [seconds > 9 * TTL for seconds in left] == [True]


def test_a_short_grant_is_confirmed_once_even_where_nothing_is_renewed() -> None:
    ShortGrants.renewals = 0
    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=ShortGrants))
    held: list[bool] = []

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(TTL, auto_renew=False), 1.0)
        assert lease is not None
        await customer.sleep(2.5)
        held.append(lease.held)
        await customer.sleep(2.0)
        held.append(lease.held)

    customer.process.spawn(hold(), "holder")
    world.run(6.0)
    customer.process.end()
    assert held == [True, False], "past the short grant, and not past the ttl"
    assert ShortGrants.renewals == 1


def test_a_hold_renewed_by_hand_does_not_hide_its_elders() -> None:
    """The keeper takes in who is new from the end of all holds, up to the first that it knows."""
    world = World(0)
    customer = Customer(world.process("p"), Node(world, Network(world, CALM)), REAL)
    held: list[bool] = []

    async def hold() -> None:
        first = await customer.acquire("first", LockOptions(4 * TTL), 1.0)
        await customer.sleep(0.1)  # the keeper sleeps now until that one is due
        elder = await customer.acquire("elder", LockOptions(4 * TTL), 1.0)
        younger = await customer.acquire("younger", LockOptions(4 * TTL), 1.0)
        assert first is not None
        assert elder is not None
        assert younger is not None
        await renewing.renew(customer.client, younger)
        await customer.sleep(8 * TTL)
        held.extend(lease.held for lease in (first, elder, younger))

    customer.process.spawn(hold(), "holder")
    world.run(8 * TTL + 2)
    customer.process.end()
    assert held == [True, True, True]


def test_who_is_due_before_the_keeper_would_look_wakes_it() -> None:
    world = World(0)
    customer = Customer(world.process("p"), Node(world, Network(world, CALM)), REAL)
    held: list[bool] = []

    async def hold() -> None:
        long = await customer.acquire("long", LockOptions(20 * TTL), 1.0)
        await customer.sleep(0.1)
        short = await customer.acquire("short", LockOptions(TTL), 1.0)
        assert long is not None
        assert short is not None
        await customer.sleep(3 * TTL)
        held.extend(lease.held for lease in (long, short))

    customer.process.spawn(hold(), "holder")
    world.run(3 * TTL + 2)
    customer.process.end()
    assert held == [True, True]


def test_a_hold_that_begins_while_the_keeper_lies_down_wakes_it() -> None:
    """It was not there yet when the keeper looked, and the keeper does not sleep yet."""
    with locknut.Locks(MemoryEngine("late")) as locks:
        client, schedule = locks._client, locks._client.schedule
        hold = Hold(
            Claim("x", "1" * 32, TTL), LockOptions(TTL), Granted(1), client.runtime.now(), None
        )
        rings: list[bool] = []
        over = threading.Event()

        def begin() -> None:
            client.begin(hold)
            over.set()

        def ring() -> None:
            rings.append(True)
            over.set()

        thread = threading.Thread(target=begin)

        class Looked(dict[str, Hold]):
            """Right after all holds were looked at, another thread's begins."""

            def values(self) -> Any:
                seen = list(super().values())
                thread.start()
                assert over.wait(PATIENCE)
                return seen

        schedule.ring = ring
        # It woke up, and found nothing to do.
        schedule.timetable.asleep_until = client.runtime.now()
        client.holds = Looked()
        schedule.lie_down()
        thread.join()
        assert rings
        client.holds = {}


OUTAGE = 40.0


class SessionLosesReleases(SimBackend):
    """As a ZooKeeper whose connection is away for a while: its session lives on."""

    capabilities = SimBackend.capabilities | {Capability.SESSION}
    released: ClassVar[list[str]] = []

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        if self.process.now() - self.process.clock.offset < OUTAGE:
            raise BackendUnavailable("no connection")
        self.released.append(claim.id)
        return await super().release(claim, outcome_unknown=outcome_unknown)

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        return [await self.release(claim, outcome_unknown=outcome_unknown) for claim in claims]


class LosesReleases(SessionLosesReleases):
    """The same with a ttl that the engine keeps."""

    capabilities = SimBackend.capabilities
    released: ClassVar[list[str]] = []


@pytest.mark.parametrize("backend", [SessionLosesReleases, LosesReleases])
def test_only_a_ttl_of_the_engine_makes_undoing_needless(
    backend: type[SessionLosesReleases],
) -> None:
    """What a session holds lasts: giving it back is tried until it is answered."""
    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=backend))
    customer.client.keeper.undo(Claim("sim:name", "1" * 32, TTL), outcome_unknown=False)
    world.run(OUTAGE + 3)
    assert backend.released == (["1" * 32] if backend is SessionLosesReleases else [])
    assert not customer.client.keeper.undoing
    customer.process.end()


class ShortSession(SimBackend):
    """Vouches for a session of 4 s, whatever ttl is asked for."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        sent = self.process.now()
        answer = await super().attempt(claim, patience)
        return answer._replace(until=sent + 4) if isinstance(answer, Granted) else answer

    async def renew(self, claims: Sequence[Claim]) -> list[Any]:
        sent = self.process.now()
        answers = await super().renew(claims)
        return [HeldUntil(sent + 4) if each is Renewal.HELD else each for each in answers]


@pytest.mark.parametrize("ttl", [4.0, 20.0, 120.0])
def test_renewals_go_by_what_was_granted(ttl: float) -> None:
    world = World(0)
    node = Node(world, Network(world, CALM))
    customer = Customer(world.process("p"), node, Variant(backend=ShortSession))
    held: list[bool] = []

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(ttl), 1.0)
        assert lease is not None
        for _ in range(30):
            await customer.sleep(1)
            held.append(lease.held)
        await customer.release(lease)

    customer.process.spawn(hold(), "holder")
    world.run(40)
    customer.process.end()
    assert held == [True] * 30
