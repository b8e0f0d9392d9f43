"""Each verb, when its answer is lost: done once, and asked for again, or told honestly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from locknut.core.values import Busy, Granted, Mode, State
from locknut.errors import BackendError, BackendUnavailable, LeaseLost
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from locknut.testing.proxy import FaultProxy
from tests.backends.redis.conftest import claim, engine
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]


class Between:
    """A proxy whose replies can be lost after the server has done what was asked."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy

    async def lose_the_answer(self, scene: Scene, work: Callable[[], Awaitable[Any]]) -> Any:
        """What comes of it; the first answer to a script is swallowed, with its connection."""
        proxy = self._proxy
        proxy.requests.forget()
        proxy.replies.forget()
        proxy.replies.swallow()

        async def do() -> Any:
            return await work()

        worker = scene.spawn(do)
        await _aside(scene, lambda: proxy.requests.wait_for(b"EVALSHA"))
        await _aside(scene, lambda: proxy.replies.wait_for(b"\r\n"))  # so it was applied
        await _aside(scene, proxy.replies.forward)
        return await worker.result()


async def _aside(scene: Scene, call: Callable[[], object]) -> None:
    """Not on the loop, where there is one: it blocks."""
    if scene.colour.name == "asyncio":
        await asyncio.to_thread(call)
    else:
        call()


class TestLostAnswers(Part):
    @pytest.fixture
    def between(self, redis_server: RedisServer) -> Iterator[Between]:
        with FaultProxy((redis_server.host, redis_server.port)) as proxy:
            self._url = redis_server.url_through(proxy.port) + "?socket_timeout=5"
            yield Between(proxy)

    @pytest.fixture
    def engine_url(self, between: Between) -> str:
        return self._url

    async def test_an_acquire(self, scene: Scene, between: Between) -> None:
        locks = scene.connect()
        await scene.free(locks, "x")
        lease = await between.lose_the_answer(scene, lambda: locks.lock("x").acquire())
        assert [each.fence for each in (await locks.info("x")).holders] == [lease.fence]
        await lease.release()

    async def test_an_acquire_that_has_to_wait(self, scene: Scene, between: Between) -> None:
        locks, other = scene.connect(), scene.connect()
        await scene.free(locks, "x")
        held = await other.lock("x").acquire()
        waiting = scene.gate()

        async def wait() -> Any:
            return await locks.lock("x").acquire()

        async def first_answer_lost() -> Any:
            worker = scene.spawn(wait)
            waiting.open()
            return worker

        worker = await between.lose_the_answer(scene, first_answer_lost)
        assert await waiting.passed()

        async def in_line() -> bool:
            return len((await other.info("x")).waiters) == 1

        await scene.eventually(in_line, "stands in line once")
        await held.release()
        lease = await worker.result()
        assert lease.fence > held.fence
        await lease.release()

    async def test_a_release(self, scene: Scene, between: Between) -> None:
        locks = scene.connect()
        lease = await locks.lock("x").acquire()
        await between.lose_the_answer(scene, lease.release)
        assert lease.state is State.RELEASED
        assert not (await locks.info("x")).locked

    async def test_a_permit(self, scene: Scene, between: Between) -> None:
        locks = scene.connect()
        semaphore = locks.semaphore("x", 1)
        await scene.free(locks, "y")
        lease = await between.lose_the_answer(scene, semaphore.acquire)
        assert len((await locks.info("x")).holders) == 1
        assert await scene.connect().semaphore("x", 1).acquire(blocking=False) is None
        await between.lose_the_answer(scene, lease.release)
        assert await semaphore.acquire(timeout=5) is not None

    async def test_a_shared_owner_counts_once(self, scene: Scene, between: Between) -> None:
        """L4: a bare count would be two now, and one after the release."""
        locks, stranger = scene.connect(), scene.connect()
        await scene.free(locks, "y")
        mine = locks.lock("x", owner="order-7")
        lease = await between.lose_the_answer(scene, mine.acquire)
        assert len((await locks.info("x")).holders) == 1
        await lease.release()
        assert await stranger.lock("x", owner="order-8").acquire(timeout=5) is not None

    async def test_a_renewal_by_hand_is_told(self, scene: Scene, between: Between) -> None:
        lease = await scene.connect().lock("x").acquire()
        with pytest.raises(BackendError):
            await between.lose_the_answer(scene, lease.renew)
        assert lease.held
        await lease.renew()
        await lease.release()

    async def test_a_downgrade(self, scene: Scene, between: Between) -> None:
        locks, others = scene.connect(), scene.connect()
        book = locks.rwlock("x")
        write = await book.write().acquire()
        read = await book.read().acquire()
        await between.lose_the_answer(scene, write.release)
        assert [each.mode for each in (await others.info("x")).holders] == [Mode.SHARED]
        beside = await others.rwlock("x").read().acquire(timeout=5)
        assert beside is not None
        assert await scene.connect().rwlock("x").write().acquire(blocking=False) is None
        for lease in (beside, read):
            assert lease.held
            await lease.release()

    async def test_a_detach_gives_no_text_and_no_hold(self, scene: Scene, between: Between) -> None:
        locks = scene.connect()
        lease = await locks.lock("x").acquire()
        with pytest.raises(BackendUnavailable):
            await between.lose_the_answer(scene, lease.detach)
        assert lease.state is State.DETACHED
        await scene.free(locks, "x")

    async def test_an_attach(self, scene: Scene, between: Between) -> None:
        locks, late = scene.connect(), scene.connect()
        await scene.free(late, "y")
        text = await (await locks.lock("x").acquire()).detach()
        moved = await between.lose_the_answer(scene, lambda: late.attach(text))
        assert moved.held
        with pytest.raises(LeaseLost):
            await locks.attach(text)
        await moved.release()
        assert not (await locks.info("x")).locked

    async def test_a_detached_claim_that_comes_late_finds_the_door_shut(
        self, scene: Scene, between: Between
    ) -> None:
        """L3: its first sending was stuck while it was detached, attached and released."""
        port, detached, moved = scene.port(), scene.claim("x"), scene.claim("x")
        await port.attempt(detached, 0.0)
        assert await port.detach(detached, 30.0)
        assert await port.attach(detached, moved) is not None
        assert await port.release(moved)
        assert isinstance(await port.attempt(detached, 0.0), Busy)
        assert await port.inspect(detached.key) == []

    async def test_breaking_is_told_to_be_in_doubt(self, scene: Scene, between: Between) -> None:
        """It is not asked for again: by then it could break somebody else's hold."""
        locks, boss = scene.connect(), scene.connect()
        await scene.free(boss, "y")
        lease = await locks.lock("x", auto_renew=False, ttl=300).acquire()  # no renewal between
        with pytest.raises(BackendUnavailable):
            await between.lose_the_answer(scene, lambda: boss.force_release("x"))
        assert not (await boss.info("x")).locked
        with pytest.raises(LeaseLost):
            await lease.release()


@pytest.mark.parametrize("verb", ["release", "attach"])
def test_a_tombstone_has_nothing_to_do_with_the_ttl(server: RedisServer, verb: str) -> None:
    """It bars commands that come late: none does after minutes, and a ttl may be a month."""
    port = engine(server).blocking(ThreadRuntime())
    mine, after = claim(ttl=30 * 86_400.0), claim(ttl=30 * 86_400.0)
    assert isinstance(run(port.attempt(mine, 0.0)), Granted)
    if verb == "attach":
        assert run(port.attach(mine, after)) is not None
        run(port.release(after))
    else:
        run(port.release(mine, outcome_unknown=True))
    left = server.ask("PTTL", "t:{x}:alive")
    assert isinstance(left, int)
    assert 60_000 < left <= 130_000
    run(port.close())
    server.flushall()
