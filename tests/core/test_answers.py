"""What a caller makes of late, repeated and overtaken answers: step by step, without chance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core import acquiring, acquiring_all, closing, detaching, pacing, releasing, renewing
from locknut.core.holding import Hold
from locknut.core.lock_request import LockOptions
from locknut.core.values import Answer, Busy, Claim, Granted, HeldUntil, Renewal
from locknut.errors import BackendUnavailable
from locknut.runtimes.loop import LoopSignal
from tests.simulation.customer import Customer
from tests.simulation.memory.backend import SimBackend
from tests.simulation.memory.node import Node
from tests.simulation.network import CALM, Network
from tests.simulation.process import Process, SimSignal
from tests.simulation.variant import Variant
from tests.simulation.world import World

TTL = 3.0
NEVER = float("inf")
Reply = Callable[["Scripted", Claim], Coroutine[Any, Any, Answer]]


class Scripted(SimBackend):
    """Answers the first attempts as it is told to; notes what was released, and how."""

    script: list[Reply]
    attempts: list[float]
    released: list[tuple[str, bool]]

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        self.attempts.append(self.process.now())
        if self.script:
            return await self.script.pop(0)(self, claim)
        return await super().attempt(claim, patience)

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self.released.append((claim.id, outcome_unknown))
        return await super().release(claim, outcome_unknown=outcome_unknown)

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        return [await self.release(claim, outcome_unknown=outcome_unknown) for claim in claims]

    async def sleep(self, seconds: float) -> None:
        await SimSignal(self.process).wait(self.process.now() + seconds)


class Stage:
    """One process, one engine that follows a script, one task."""

    def __init__(self, *script: Reply) -> None:
        self.world = World(0)
        self.node = Node(self.world, Network(self.world, CALM))
        self.attempts: list[float] = []
        self.released: list[tuple[str, bool]] = []
        notes = {"script": list(script), "attempts": self.attempts, "released": self.released}
        backend: Any = type("Told", (Scripted,), notes)
        self.process: Process = self.world.process("p")
        self.customer = Customer(self.process, self.node, Variant(backend=backend))

    def play(self, work: Coroutine[Any, Any, Any], seconds: float = 30.0) -> None:
        task = self.process.spawn(work, "worker")
        assert task is not None
        self.world.run(self.world.now + seconds)
        assert task.done
        if task.error is not None:
            raise task.error


async def _busy(_: Scripted, __: Claim) -> Answer:
    return Busy(0.01)


async def _lost(_: Scripted, __: Claim) -> Answer:
    raise BackendUnavailable("no answer in time")


def _late(seconds: float) -> Reply:
    """Granted at once, and answered so much later."""

    async def answer(backend: Scripted, claim: Claim) -> Answer:
        found = await SimBackend.attempt(backend, claim, 0.0)
        await backend.sleep(seconds)
        return found

    return answer


def _pushed(age: float, raw: int) -> Reply:
    """A grant that was pushed, counted from so long ago."""

    async def answer(backend: Scripted, _: Claim) -> Answer:
        return Granted(raw, TTL, backend.process.now() - age)

    return answer


def test_a_grant_to_a_waiter_that_comes_after_its_time_is_given_back() -> None:
    stage = Stage(_busy, _late(TTL + 1))

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 20.0)
        assert lease is not None
        assert lease.held
        assert lease.remaining > TTL / 2
        assert len(stage.attempts) == 3
        assert len(stage.released) == 1  # the one that came too late
        await stage.customer.release(lease)

    stage.play(story())


def test_a_first_grant_that_comes_after_its_time_is_not_given_out() -> None:
    stage = Stage(_late(TTL + 1))

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 20.0)
        assert lease is not None
        assert lease.held
        assert lease.remaining > TTL / 2
        assert len(stage.attempts) == 2
        await stage.customer.release(lease)

    stage.play(story())


@pytest.mark.parametrize("first", [_pushed, None])
def test_a_pushed_grant_that_is_half_used_up_is_asked_for_again(first: Any) -> None:
    """It may have been granted once more meanwhile: the number that stands now is told."""
    old = _pushed(TTL * 0.8, 7)
    stage = Stage(old) if first is not None else Stage(_busy, old)

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 20.0)
        assert lease is not None
        assert lease.remaining > TTL / 2
        (held,) = stage.node.store.holds()
        assert lease._hold.raw == held.raw != 7
        await stage.customer.release(lease)

    stage.play(story())


def test_a_pushed_grant_that_is_gone_when_it_is_asked_for_again_is_not_given_out() -> None:
    stage = Stage(_pushed(TTL * 0.8, 7), *[_busy] * 1000)

    async def story() -> None:
        assert await stage.customer.acquire("name", LockOptions(TTL), 0.5) is None

    stage.play(story())


def test_a_fresh_pushed_grant_is_given_out_as_it_is() -> None:
    stage = Stage(_pushed(TTL * 0.1, 7))

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 20.0)
        assert lease is not None
        assert lease._hold.raw == 7
        assert len(stage.attempts) == 1
        stage.customer.client.drop(lease._hold)

    stage.play(story())


@pytest.mark.parametrize("before", [(_lost,), (_busy, _lost)])
def test_a_grant_after_an_outage_counts_from_its_own_sending(before: tuple[Reply, ...]) -> None:
    stage = Stage(*before, _late(0.5))

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 20.0)
        assert lease is not None
        assert lease._hold.valid_until == pacing.validity(stage.attempts[-1], TTL)
        assert stage.process.now() >= stage.attempts[-1] + 0.5
        await stage.customer.release(lease)

    stage.play(story())


@pytest.mark.parametrize("before", [(), (_busy,)])
def test_an_engine_that_stays_out_of_reach_is_told_to_who_would_wait_for_ever(
    before: tuple[Reply, ...],
) -> None:
    stage = Stage(*before, *[_lost] * 1000)
    client = stage.customer.client

    async def story() -> None:
        request = client.request("name", LockOptions(TTL))
        with pytest.raises(BackendUnavailable):
            await acquiring.acquire(client, request, client.runtime.caller(), NEVER, [])

    stage.play(story(), pacing.OUTAGE_PATIENCE + 5.0)


def test_a_grant_that_comes_while_the_client_closes_is_given_back() -> None:
    """By the core itself: whoever called it may not know that there was a grant."""

    async def close_meanwhile(backend: Scripted, claim: Claim) -> Answer:
        found = await SimBackend.attempt(backend, claim, 0.0)
        await closing.close(stage.customer.client)
        return found

    stage = Stage(close_meanwhile)
    client = stage.customer.client

    async def story() -> None:
        acquired: list[Any] = []
        request = client.request("name", LockOptions(TTL))
        with pytest.raises(locknut.ConfigurationError, match="closed"):
            await acquiring.acquire(client, request, client.runtime.caller(), NEVER, acquired)
        assert [lease.held for lease in acquired] == [False]

    stage.play(story(), TTL / 2)
    assert [outcome_unknown for _, outcome_unknown in stage.released] == [False]
    assert not list(stage.node.store.holds())


def test_a_detach_in_doubt_is_given_back_after_an_outage_of_more_than_the_ttl(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody was given the text, and what was detached lives much longer than the lock's ttl."""
    stage = Stage()
    outage = 4 * TTL
    back = stage.process.now() + outage

    async def done(backend: Scripted, claim: Claim, ttl: float) -> bool:
        assert await SimBackend.detach(backend, claim, ttl)
        raise BackendUnavailable("the answer is lost")

    async def release(backend: Scripted, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        if backend.process.now() < back:
            raise BackendUnavailable("no way to it")
        return await SimBackend.release(backend, claim, outcome_unknown=outcome_unknown)

    monkeypatch.setattr(Scripted, "detach", done)
    monkeypatch.setattr(Scripted, "release", release)

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 0.0)
        assert lease is not None
        with pytest.raises(BackendUnavailable):
            await detaching.detach(stage.customer.client, lease, 100 * TTL)
        assert list(stage.node.store.holds())

    stage.play(story(), outage + 10.0)
    assert not list(stage.node.store.holds())


@pytest.mark.parametrize("asked", ["held", "state", "release"])
def test_when_its_time_is_over_a_lease_says_so_whatever_the_engine_believes(asked: str) -> None:
    stage = Stage()
    client = stage.customer.client
    client.keeper._closing = True  # so that nobody else notices

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 0.0)
        assert lease is not None
        await stage.customer.sleep((pacing.validity(0.0, TTL) + TTL) / 2)
        assert [held.claim for held in stage.node.store.holds()] == [lease._hold.claim]
        if asked == "held":
            assert not lease.held
        elif asked == "state":
            assert lease.state is locknut.State.LOST
        with pytest.raises(locknut.LeaseLost):
            await releasing.release(client, lease)

    stage.play(story())


def test_a_renewal_that_is_answered_after_the_time_is_over_revives_nothing() -> None:
    stage = Stage()
    client = stage.customer.client
    client.keeper._closing = True  # so that nobody else notices

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 0.0)
        assert lease is not None
        await stage.customer.sleep(TTL)
        renewing.renewed(client, lease._hold, Renewal.HELD, stage.process.now() - TTL / 2)
        assert not lease.held

    stage.play(story())


def test_who_waits_asks_no_more_once_the_client_is_closed() -> None:
    stage = Stage(*[_busy] * 1000)
    client = stage.customer.client
    asked: list[int] = []

    async def wait() -> None:
        request = client.request("name", LockOptions(TTL))
        with pytest.raises(locknut.ConfigurationError, match="closed"):
            await acquiring.acquire(client, request, client.runtime.caller(), NEVER, [])

    async def close() -> None:
        await stage.customer.sleep(1.0)
        asked.append(len(stage.attempts))
        await closing.close(client)

    closer = stage.process.spawn(close(), "closer")
    stage.play(wait(), 2.0)
    assert closer is not None
    assert closer.error is None
    assert [len(stage.attempts)] == asked


class SlowAdopt(SimBackend):
    """The first attach is lost, the second answered late."""

    sent: list[float]

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        self.sent.append(self.process.now())
        if len(self.sent) == 1:
            raise BackendUnavailable("no answer in time")
        found = await super().attach(detached, claim)
        await SimSignal(self.process).wait(self.process.now() + 0.5)
        return found


def test_an_attach_after_an_outage_counts_from_its_own_sending() -> None:
    stage = Stage()
    sent: list[float] = []
    slow: Any = type("Slow", (SlowAdopt,), {"sent": sent})
    stage.customer.client.backend = slow(stage.process, stage.node)

    async def story() -> None:
        client = stage.customer.client
        lease = await stage.customer.acquire("name", LockOptions(TTL), 20.0)
        assert lease is not None
        text = await detaching.detach(client, lease, TTL)
        acquired: list[Any] = []
        attached = await detaching.attach(client, text, acquired)
        assert attached._hold.valid_until == pacing.validity(sent[-1], TTL)
        client.drop(attached._hold)

    stage.play(story())


def _hold(valid_from: float = 100.0, ttl: float = 10.0) -> Hold:
    return Hold(Claim("k", "1" * 32, ttl), LockOptions(ttl), Granted(1), valid_from, None)


def test_an_older_answer_does_not_shorten_the_validity() -> None:
    hold = _hold(100.0)
    hold.confirmed(104.0)
    until = hold.valid_until
    hold.confirmed(102.0)
    assert (hold.anchor, hold.valid_until) == (104.0, until)


def test_a_renewal_that_is_answered_after_the_end_of_its_hold_plans_nothing() -> None:
    stage = Stage()

    async def story() -> None:
        client = stage.customer.client
        lease = await stage.customer.acquire("name", LockOptions(TTL), 20.0)
        assert lease is not None
        hold, sent = lease._hold, stage.process.now()
        await stage.customer.release(lease)
        renewing.renewed(client, hold, Renewal.HELD, sent)
        renewing.renewed(client, hold, Renewal.UNKNOWN, sent)
        assert client.schedule.timetable.next_due() == float("inf")

    stage.play(story())


class RingsWhenItRests:
    """A signal that is rung at the very moment when the keeper has put its ticket back."""

    def __init__(self) -> None:
        self._rung = False

    def notify(self) -> None:
        self._rung = True

    async def wait(self, until: float) -> bool:
        if until == 0.0:
            self.notify()
        rung, self._rung = self._rung, False
        return rung


def test_a_ring_while_the_keeper_goes_to_rest_is_heard() -> None:
    """Whoever rings then takes the ticket and starts another, or the keeper stays."""
    stage = Stage()
    keeper = stage.customer.client.keeper
    started: list[object] = []
    keeper._start = started.append
    keeper._tickets.clear()  # it runs
    keeper.wake = RingsWhenItRests()
    looks: list[list[object]] = []

    async def look(_: object) -> bool:
        looks.append(list(keeper._tickets))
        keeper._closing = len(looks) == 2
        return True

    keeper._look = look  # type: ignore[method-assign,assignment]
    stage.play(keeper.run())
    assert looks == [[], []]
    assert started == []


def test_who_waits_in_the_line_looks_for_itself_where_a_ring_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with somebody who is interrupted when it has passed the turn on, and before it rings."""
    stage = Stage()
    customer = stage.customer
    monkeypatch.setattr(SimSignal, "notify", lambda _: None)

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(60.0), 0.0)
        assert lease is not None
        await customer.sleep(1.0)
        await customer.release(lease)

    async def wait() -> None:
        lease = await customer.acquire("name", LockOptions(60.0), 60.0)
        assert lease is not None
        await customer.release(lease)

    holder = stage.process.spawn(hold(), "holder")
    stage.world.run(0.5)
    stage.play(wait(), 1.0 + 3 * pacing.LINE_NET)
    assert holder is not None
    assert holder.error is None


class GatherLost(SimBackend):
    """`all`: the first answer is lost, the second says that they are not all free."""

    released: list[tuple[str, bool]]
    asked: list[Sequence[Claim]]

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        self.asked.append(claims)
        if len(self.asked) == 1:
            raise BackendUnavailable("no answer in time")
        return Busy(0.0)

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self.released.append((claim.id, outcome_unknown))
        return await super().release(claim, outcome_unknown=outcome_unknown)


def test_a_refused_gather_with_an_answer_lost_is_withdrawn_with_doubt() -> None:
    stage = Stage()
    asked: list[Sequence[Claim]] = []
    notes = {"released": stage.released, "asked": asked}
    kind: Any = type("Lost", (GatherLost,), notes)
    client = stage.customer.client
    client.backend = kind(stage.process, stage.node)

    async def story() -> None:
        parts = [(client, client.request(name, LockOptions(TTL))) for name in ("a", "b")]
        acquired: list[Any] = []
        assert not await acquiring_all.acquire_all(parts, stage.process.now(), acquired)

    stage.play(story())
    assert stage.released == [(claim.id, True) for claim in asked[0]]


class GatherAgain(SimBackend):
    """`all`: what comes of the first question is as it is told, and from then on as usual."""

    first: Callable[[], Coroutine[Any, Any, None]] | None

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        found = await super().attempt_all(claims)
        first, type(self).first = self.first, None
        if first is not None:
            await first()
        return found


@pytest.mark.parametrize("late", [True, False])
def test_several_at_once_are_given_out_in_time_and_with_their_doubt(late: bool) -> None:
    stage = Stage()
    client = stage.customer.client

    async def trouble() -> None:
        if not late:
            raise BackendUnavailable("no answer in time")
        await stage.customer.sleep(TTL + 1)

    kind: Any = type("Again", (GatherAgain,), {"first": staticmethod(trouble)})
    client.backend = kind(stage.process, stage.node)

    async def story() -> None:
        leases = await stage.customer.acquire_all(["a", "b"], LockOptions(TTL), 20.0)
        assert leases is not None
        assert all(lease.held and lease.remaining > TTL / 2 for lease in leases)
        assert late or all(lease._hold.outcome_unknown for lease in leases)
        await stage.customer.release_all(leases)

    stage.play(story())


def test_a_hold_is_believed_for_as_long_as_its_engine_vouches_for_it() -> None:
    stage = Stage()

    async def story() -> None:
        lease = await stage.customer.acquire("name", LockOptions(TTL), 0.0)
        assert lease is not None
        now = stage.process.now()
        renewing.renewed(stage.customer.client, lease._hold, HeldUntil(now + TTL / 2), now)
        assert lease._hold.valid_until == now + TTL / 2
        await stage.customer.release(lease)

    stage.play(story())


def test_renewing_by_hand_leaves_nothing_in_the_timetable() -> None:
    with locknut.connect("memory:") as locks:
        lease = locks.lock("x", ttl="1h", auto_renew=False).acquire()
        assert lease is not None
        for _ in range(2000):
            lease.renew()
        assert len(lease._client.schedule.timetable._heap) < 300
        lease.release()


def test_in_a_long_line_only_the_first_looks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing happens for longer than its net: of hundreds of tasks hardly any wakes up."""
    waits: list[float] = []
    wait = LoopSignal.wait

    async def counted(signal: LoopSignal, until: float) -> bool:
        waits.append(until)
        return await wait(signal, until)

    async def visit(lock: aio.Lock) -> None:
        async with lock:
            pass

    async def story() -> int:
        async with aio.connect("memory:") as locks:
            lock = locks.lock("x")
            async with lock:
                tasks = [asyncio.ensure_future(visit(lock)) for _ in range(500)]
                await asyncio.sleep(pacing.LINE_NET * 1.5)
                woken = len(waits)
            await asyncio.gather(*tasks)
        return woken

    monkeypatch.setattr(LoopSignal, "wait", counted)
    assert 500 <= asyncio.run(story()) < 550
