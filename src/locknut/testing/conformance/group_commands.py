"""The optional verbs for several keys at once (`attempt_all`, `release_all`), rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.core.values import Busy, Capability, Claim, Granted, Mode, Renewal
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs


def _port(scene: Scene) -> Any:
    port = scene.port()
    if not port.batches:
        pytest.skip(f"the {scene.backend} engine does not declare 'attempt_all'")
    return port


async def _gathering_port(scene: Scene) -> Any:
    """One that takes these names in one step: it need not, on several machines say."""
    port, probe = _port(scene), [scene.claim(name) for name in ("x", "y", "z")]
    if await port.attempt_all(probe) is None:
        pytest.skip(f"the {scene.backend} engine does not declare that it takes these in one step")
    assert await port.release_all(probe) == [True, True, True]
    return port


async def _granted(port: Any, claims: list[Claim]) -> list[int]:
    answer = await port.attempt_all(claims)
    assert isinstance(answer, list), answer
    assert len(answer) == len(claims)
    return [each.raw for each in answer]


class GroupCommands(Part):
    """What the core relies on where an engine has `attempt_all` and `release_all`."""

    async def test_several_are_taken_and_given_back(self, scene: Scene) -> None:
        port, claims = await _gathering_port(scene), [scene.claim(name) for name in ("x", "y", "z")]
        assert len(await _granted(port, claims)) == 3
        for claim in claims:
            assert len((await port.inspect(claim.key))[0].holders) == 1
            other = claim._replace(id=scene.claim("x").id)
            assert isinstance(await port.attempt(other, 0.0), Busy)
            await port.release(other)
        assert await port.renew(claims) == [Renewal.HELD] * 3
        assert await port.release_all(claims) == [True, True, True]
        assert [await port.inspect(claim.key) for claim in claims] == [[], [], []]

    async def test_one_that_is_held_keeps_all_of_them(self, scene: Scene) -> None:
        port, held = await _gathering_port(scene), scene.claim("y")
        await port.attempt(held, 0.0)
        for names in (("x", "y"), ("y", "z"), ("x", "y", "z")):
            assert isinstance(await port.attempt_all([scene.claim(each) for each in names]), Busy)
        for name in ("x", "z"):  # nothing was taken, and nobody stands in line
            assert not await port.inspect(scene.claim(name).key)
        assert not (await port.inspect(held.key))[0].waiters
        await port.release(held)

    async def test_several_that_were_taken_one_by_one_are_given_back(self, scene: Scene) -> None:
        port, claims = _port(scene), [scene.claim(name) for name in ("x", "y", "z")]
        for claim in claims[:2]:
            assert isinstance(await port.attempt(claim, 0.0), Granted)
        assert await port.release_all(claims) == [True, True, False]
        assert await port.release_all(claims) == [False, False, False]
        assert await port.release_all(claims, outcome_unknown=True) == [False, False, False]
        assert [await port.inspect(claim.key) for claim in claims] == [[], [], []]

    async def test_asked_twice_is_asked_once(self, scene: Scene) -> None:
        port, claims = await _gathering_port(scene), [scene.claim("x"), scene.claim("y")]
        first = await _granted(port, claims)
        assert await _granted(port, claims) == first
        for claim in claims:
            assert len((await port.inspect(claim.key))[0].holders) == 1
        assert await port.release_all(claims) == [True, True]
        assert await port.release_all(claims) == [False, False]

    async def test_a_claim_of_several_is_a_claim(self, scene: Scene) -> None:
        port, claims = await _gathering_port(scene), [scene.claim("x"), scene.claim("y")]
        raws = await _granted(port, claims)
        again = await port.attempt(claims[0], 0.0)
        assert isinstance(again, Granted)
        assert again.raw == raws[0]
        assert await port.release(claims[0])
        assert await port.release_all(claims) == [False, True]

    @needs(Capability.LEASE)
    async def test_asking_again_sets_the_full_ttl(self, scene: Scene) -> None:
        port = await _gathering_port(scene)
        claims = [scene.claim(name, ttl=scene.ttl) for name in ("x", "y")]
        await _granted(port, claims)
        await scene.pause(scene.ttl / 2)
        asked_again = scene.now()
        await _granted(port, claims)
        await scene.pause(max(0.0, asked_again + scene.ttl * 0.8 - scene.now()))
        for other in (scene.claim("x"), scene.claim("y")):
            answer = await port.attempt(other, 0.0)
            if scene.now() < asked_again + scene.ttl:  # answered while they still held
                assert isinstance(answer, Busy)
            await port.release(other)
        await port.release_all(claims)

    async def test_a_tombstone_of_one_keeps_all_of_them_out(self, scene: Scene) -> None:
        port, claims = await _gathering_port(scene), [scene.claim("x"), scene.claim("y")]
        await port.release(claims[1], outcome_unknown=True)
        answer = await port.attempt_all(claims)  # stuck in a dead connection (L3)
        if isinstance(answer, list):
            assert port.no_tombstones, "granted late, and nothing says why not"
            await port.release_all(claims)
            return
        assert isinstance(answer, Busy)
        assert not await port.inspect(claims[0].key)
        others = [scene.claim("x"), scene.claim("y")]
        await _granted(port, others)
        assert await port.release_all(others, outcome_unknown=True) == [True, True]
        assert isinstance(await port.attempt_all(others), Busy)

    @needs(Capability.FAIR)
    async def test_nobody_in_line_is_overtaken(self, scene: Scene) -> None:
        port, holder, waiter = await _gathering_port(scene), scene.claim("y"), scene.claim("y")
        await port.attempt(holder, 0.0)
        assert isinstance(await port.attempt(waiter, 0.0), Busy)
        await port.release(holder)
        assert isinstance(await port.attempt_all([scene.claim("x"), scene.claim("y")]), Busy)
        assert isinstance(await port.attempt(waiter, 0.0), Granted)
        await port.release(waiter)
        await port.release_all([scene.claim("x")])

    async def test_numbers_grow_whichever_verb_asks(self, scene: Scene) -> None:
        port, raws = await _gathering_port(scene), []
        for _ in range(3):
            claims = [scene.claim("x"), scene.claim("y")]
            raws.append((await _granted(port, claims))[0])
            await port.release_all(claims)
            alone = scene.claim("x")
            granted = await port.attempt(alone, 0.0)
            assert isinstance(granted, Granted)
            raws.append(granted.raw)
            await port.release(alone)
        assert raws == sorted(set(raws))

    @needs(Capability.SHARED)
    async def test_readers_may_be_among_them(self, scene: Scene) -> None:
        port, reader = await _gathering_port(scene), scene.claim("x", mode=Mode.SHARED)
        await port.attempt(reader, 0.0)
        claims = [scene.claim("x", mode=Mode.SHARED), scene.claim("y")]
        first = await _granted(port, claims)
        assert await _granted(port, claims) == first
        assert len((await port.inspect(reader.key))[0].holders) == 2
        assert isinstance(await port.attempt_all([scene.claim("x"), scene.claim("z")]), Busy)
        assert await port.release_all([*claims, reader]) == [True, True, True]

    @needs(Capability.OWNERS)
    async def test_co_owners_may_be_among_them(self, scene: Scene) -> None:
        port, partner = await _gathering_port(scene), scene.claim("x", owner="ann")
        await port.attempt(partner, 0.0)
        bob = [scene.claim("x", owner="bob"), scene.claim("y")]
        assert isinstance(await port.attempt_all(bob), Busy)
        claims = [scene.claim("x", owner="ann"), scene.claim("y")]
        await _granted(port, claims)
        assert await port.release_all([*claims, partner]) == [True, True, True]
