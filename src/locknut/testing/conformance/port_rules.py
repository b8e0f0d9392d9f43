"""The rules of the port between core and engine (`locknut.core.ports`), one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from locknut.core.values import Broken, Busy, Capability, Granted, HeldUntil, Mode, Renewal, Renewed
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs


def plain(answers: Sequence[Renewed]) -> list[Renewal]:
    """What was answered, without until when, or by whom it was broken."""
    return [_plain(each) for each in answers]


def _plain(answer: Renewed) -> Renewal:
    if isinstance(answer, HeldUntil):
        return Renewal.HELD
    return Renewal.LOST if isinstance(answer, Broken) else answer


class PortRules(Part):
    """What the core relies on."""

    async def test_it_says_what_it_is(self, scene: Scene) -> None:
        port = scene.port()
        assert port.name
        assert port.capabilities <= set(Capability)
        assert Capability.FENCING in port.capabilities, "every grant has a number"
        assert 0 < port.min_ttl < port.max_ttl
        assert port.default_ttl is None or port.min_ttl <= port.default_ttl <= port.max_ttl
        assert port.heartbeat is None or port.heartbeat > 0
        if scene.has(Capability.LEASE) and not scene.has(Capability.SESSION):
            assert port.default_ttl is not None, "without a ttl a dead holder would stay for ever"

    async def test_one_claim_asked_twice_is_one_claim(self, scene: Scene) -> None:
        port, claim = scene.port(), scene.claim("x")
        first = await port.attempt(claim, 0.0)
        again = await port.attempt(claim, 0.0)
        assert isinstance(first, Granted)
        assert isinstance(again, Granted)
        assert again.raw == first.raw
        assert len((await port.inspect(claim.key))[0].holders) == 1
        assert await port.release(claim)
        assert not await port.inspect(claim.key)

    async def test_a_single_attempt_leaves_no_place_in_line(self, scene: Scene) -> None:
        """What an engine says it has not kept is never released."""
        port, holder, late = scene.port(), scene.claim("x"), scene.claim("x", waits=False)
        assert isinstance(await port.attempt(holder, 0.0), Granted)
        answer = await port.attempt(late, 0.0)
        assert isinstance(answer, Busy)
        if answer.queued:
            await port.release(late)
        assert not (await port.inspect(holder.key))[0].waiters
        assert await port.release(holder)
        assert not await port.inspect(holder.key)

    @needs(Capability.LEASE)
    async def test_a_repeated_attempt_sets_the_full_ttl_or_says_from_when(
        self, scene: Scene
    ) -> None:
        port, claim = scene.port(), scene.claim("x", ttl=scene.ttl)
        sent = scene.now()
        await port.attempt(claim, 0.0)
        await scene.pause(scene.ttl / 2)
        asked_again = scene.now()
        again = await port.attempt(claim, 0.0)
        assert isinstance(again, Granted)
        if again.anchor is not None:  # S8: then validity counts from the first sending
            assert again.anchor <= sent + 0.01
        else:
            await scene.pause(max(0.0, asked_again + scene.ttl * 0.8 - scene.now()))
            other = scene.claim("x")
            answer = await port.attempt(other, 0.0)
            if scene.now() < asked_again + scene.ttl:  # answered while it still held
                assert isinstance(answer, Busy)
            await port.release(other)
        await port.release(claim)

    @needs(Capability.FENCING)
    async def test_raw_numbers_grow(self, scene: Scene) -> None:
        port = scene.port()
        raws = []
        for _ in range(5):
            claim = scene.claim("x")
            granted = await port.attempt(claim, 0.0)
            assert isinstance(granted, Granted)
            raws.append(granted.raw)
            await port.release(claim)
        assert raws == sorted(set(raws))
        assert 0 < raws[-1] < 2**53 // 32

    async def test_busy_says_when_to_ask_again(self, scene: Scene) -> None:
        port, holder, waiter = scene.port(), scene.claim("x"), scene.claim("x")
        await port.attempt(holder, 0.0)
        answer = await port.attempt(waiter, 0.0)
        assert isinstance(answer, Busy)
        assert answer.retry_in >= 0
        await port.release(waiter)
        await port.release(holder)

    async def test_release_is_always_safe(self, scene: Scene) -> None:
        port, claim, other = scene.port(), scene.claim("x"), scene.claim("x")
        assert not await port.release(claim), "never arrived"
        await port.attempt(other, 0.0)
        assert not await port.release(scene.claim("x")), "not the holder's"
        assert isinstance(await port.attempt(claim, 0.0), Busy)
        assert not await port.release(claim), "only waited"
        assert not await port.release(claim), "twice"
        assert plain(await port.renew([other])) == [Renewal.HELD]
        assert await port.release(other)
        assert not await port.release(other), "twice"

    async def test_a_withdrawn_waiter_is_not_granted(self, scene: Scene) -> None:
        port, holder = scene.port(), scene.claim("x")
        quitter, newcomer = scene.claim("x"), scene.claim("x")
        await port.attempt(holder, 0.0)
        await port.attempt(quitter, 0.0)
        await port.release(quitter)
        await port.release(holder)
        assert isinstance(await port.attempt(newcomer, 0.0), Granted)
        await port.release(newcomer)

    async def test_a_doubtful_release_bars_the_late_attempt(self, scene: Scene) -> None:
        port, late, newcomer = scene.port(), scene.claim("x"), scene.claim("x")
        await port.release(late, outcome_unknown=True)
        answer = await port.attempt(late, 0.0)  # was stuck in a dead connection (L3)
        if isinstance(answer, Granted):
            why = port.no_tombstones
            assert why, "a late attempt was granted, and `no_tombstones` does not say why it cannot"
            await port.release(late)
            return
        assert isinstance(await port.attempt(newcomer, 0.0), Granted)
        await port.release(newcomer)
        await port.release(late)

    async def test_renewing_needs_the_holders_own_claim(self, scene: Scene) -> None:
        port, claim = scene.port(), scene.claim("x")
        await port.attempt(claim, 0.0)
        stranger = claim._replace(id=scene.claim("x").id)
        elsewhere = scene.claim("y")
        answers = plain(await port.renew([claim, stranger, elsewhere, claim]))
        lost = Renewal.LOST
        assert answers == [Renewal.HELD, lost, lost, Renewal.HELD]
        await port.release(claim)
        assert plain(await port.renew([claim])) == [lost]
        assert plain(await port.renew([])) == []
        assert not await port.inspect(claim.key)

    @needs(Capability.LEASE)
    async def test_renewing_never_revives(self, scene: Scene) -> None:
        port, claim = scene.port(), scene.claim("x", ttl=scene.ttl)
        await port.attempt(claim, 0.0)
        await scene.pause(scene.ttl * 2.5)  # nobody looks meanwhile: looking may clear it away
        assert plain(await port.renew([claim])) == [Renewal.LOST]
        assert not await port.inspect(claim.key)
        assert not await port.release(claim)

    async def test_many_are_renewed_in_one_call(self, scene: Scene) -> None:
        port = scene.port()
        claims = [scene.claim(f"x{n}") for n in range(120)]
        for claim in claims:
            await port.attempt(claim, 0.0)
        assert plain(await port.renew(claims)) == [Renewal.HELD] * 120
        for claim in claims:
            assert await port.release(claim)

    @needs(Capability.WAKE_UP)
    async def test_a_watch_rings_when_it_is_worth_asking(self, scene: Scene) -> None:
        port, runtime = scene.port(), scene.runtime()
        holder, waiter = scene.claim("x"), scene.claim("x")
        await port.attempt(holder, 0.0)
        assert isinstance(await port.attempt(waiter, 0.0), Busy)
        with port.watch(waiter, runtime.signal) as signal:
            assert isinstance(await port.attempt(waiter, 0.0), Busy)
            other = scene.port()
            assert await other.release(holder)
            assert await signal.wait(runtime.now() + 20)

            async def granted() -> bool:
                return isinstance(await port.attempt(waiter, 0.0), Granted)

            await scene.eventually(granted)
        await port.release(waiter)

    @needs(Capability.FAIR)
    async def test_the_line_is_kept_across_ports(self, scene: Scene) -> None:
        first, second, third = (scene.port() for _ in range(3))
        holder, waiter, barger = (scene.claim("x", fair=True) for _ in range(3))
        await first.attempt(holder, 0.0)
        await second.attempt(waiter, 0.0)
        await first.release(holder)
        assert isinstance(await third.attempt(barger, 0.0), Busy)

        async def granted() -> bool:
            return isinstance(await second.attempt(waiter, 0.0), Granted)

        await scene.eventually(granted)
        await third.release(barger)
        await second.release(waiter)

    @needs(Capability.SHARED, Capability.DOWNGRADE)
    async def test_a_downgrade_asked_twice_is_one(self, scene: Scene) -> None:
        port, claim = scene.port(), scene.claim("x")
        await port.attempt(claim, 0.0)
        assert await port.downgrade(claim)
        shared = claim._replace(mode=Mode.SHARED)
        assert await port.downgrade(shared)
        reader = scene.claim("x", mode=Mode.SHARED)
        assert isinstance(await port.attempt(reader, 0.0), Granted)
        assert isinstance(await port.attempt(scene.claim("y"), 0.0), Granted)
        assert plain(await port.renew([shared])) == [Renewal.HELD]
        assert await port.release(shared)
        assert await port.release(reader)
        assert not await port.downgrade(scene.claim("x"))
        for info in await port.inspect(None):
            if info.name.startswith(scene.namespace):
                await port.break_hold(info.name, None)

    @needs(Capability.LEASE, Capability.DETACHING)
    async def test_a_doubtful_release_bars_the_late_attach(self, scene: Scene) -> None:
        """L3: it was given up without an answer, and is applied when somebody else may attach.

        In a session commands keep their order, so there none comes after the release.
        """
        port, detached, given_up = scene.port(), scene.claim("x"), scene.claim("x")
        granted = await port.attempt(detached, 0.0)
        assert isinstance(granted, Granted)
        assert await port.detach(detached, 30.0)
        await port.release(given_up, outcome_unknown=True)
        assert await port.attach(detached, given_up) is None
        assert plain(await port.renew([detached])) == [Renewal.HELD]
        after = scene.claim("x")
        attached = await port.attach(detached, after)
        assert attached is not None
        assert attached.raw == granted.raw
        assert await port.release(after)

    @needs(Capability.DETACHING)
    async def test_attaching_is_a_swap_and_asked_twice_is_one(self, scene: Scene) -> None:
        port, other = scene.port(), scene.port()
        detached, mine, late = (scene.claim("x") for _ in range(3))
        granted: Any = await port.attempt(detached, 0.0)
        assert await port.detach(detached, 20.0)
        attached = await other.attach(detached, mine)
        assert attached is not None
        assert attached.raw == granted.raw
        again = await other.attach(detached, mine)
        assert again is not None
        assert again.raw == granted.raw
        assert await port.attach(detached, late) is None
        assert not await port.release(detached)
        assert plain(await other.renew([mine])) == [Renewal.HELD]
        assert await other.release(mine)
        assert not await port.detach(mine, 20.0)

    async def test_breaking_compares_the_raw_number(self, scene: Scene) -> None:
        port, claim = scene.port(), scene.claim("x")
        granted: Any = await port.attempt(claim, 0.0)
        assert await port.break_hold(claim.key, granted.raw - 1) is None
        broken = await port.break_hold(claim.key, granted.raw)
        assert broken is not None
        assert await port.break_hold(claim.key, None) is None
        assert plain(await port.renew([claim])) == [Renewal.LOST]
        assert not await port.release(claim)

    async def test_two_closes_are_one(self, scene: Scene) -> None:
        port = scene.port()
        await port.close()
        await port.close()
