"""One lock, two libraries: Locknut and Redisson exclude and wake each other, in both colours."""

from __future__ import annotations

import re
from typing import Any

import pytest

from locknut.backends.redis.layouts import redisson
from locknut.core.values import Busy, Capability, Granted, Renewal, State
from locknut.errors import BackendError, LeaseLost, StaleFence, Unsupported
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.backends.redis.layouts.conftest import key, keys, left, table
from tests.backends.redis.layouts.java import Java, NotLockedByCurrentThread
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
LONG = 60_000
"""ms: longer than any test waits, so that nobody gets in by a timer."""


@pytest.fixture(autouse=True)
def no_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is woken here was told, or the present hold ran out."""
    monkeypatch.setattr(redisson, "NET", LONG / 1000)


class _Layout(Part):
    @pytest.fixture
    def engine_url(self, server: RedisServer) -> str:
        return f"{server.url}?layout=redisson"


class TestWhatStandsThere(_Layout):
    """The keys, field by field, as Redisson's own."""

    async def test_a_hold(self, scene: Scene, server: RedisServer) -> None:
        locks, name = scene.connect(), key(scene)
        async with locks.lock("x", ttl=20) as lease:
            assert server.ask("TYPE", name) == b"hash"
            ((owner, count),) = table(server, name).items()
            assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:0", owner)
            assert count == "1"
            assert 19_000 < left(server, name) <= 20_000
            number = f"redisson_lock_token:{{{name}}}"
            assert server.ask("GET", number) == str(lease.fence).encode() == b"1"
            assert left(server, number) == -1
            assert keys(server) == sorted([name, number, f"locknut_claims:{{{name}}}"])
            assert 0 < left(server, f"locknut_claims:{{{name}}}") <= 21_000
        assert keys(server) == [number]

    async def test_a_name_with_braces(self, scene: Scene, server: RedisServer, java: Java) -> None:
        locks, name = scene.connect(), key(scene, "x{tag}y")
        lock = java.lock(name)
        assert lock.channel == f"redisson_lock__channel:{name}"
        async with locks.lock("x{tag}y"):
            assert keys(server) == sorted([
                name, f"redisson_lock_token:{name}", f"{name}:locknut_claims"
            ])  # fmt: skip
            waiter = java.waiter(lock)
            await happened(scene, waiter.sleeping)
        await happened(scene, waiter.entered)
        assert waiter.messages == [b"0"]
        lock.unlock()

    async def test_entering_again_is_ours_alone_and_an_owner_counts(
        self, scene: Scene, server: RedisServer, java: Java
    ) -> None:
        one, two, name = scene.connect(), scene.connect(), key(scene)
        async with one.lock("x") as outer, one.lock("x") as inner:
            assert inner.fence == outer.fence
            assert list(table(server, name).values()) == ["1"]
        first = await one.lock("x", owner="order-7").acquire()
        second = await two.lock("x", owner="order-7").acquire(timeout=0)
        assert first.fence == second.fence
        assert list(table(server, name).values()) == ["2"]
        lock = java.lock(name)
        await first.release()
        assert list(table(server, name).values()) == ["1"]
        assert lock.try_lock() is not None
        await second.release()
        assert lock.try_lock() is None
        lock.unlock()

    async def test_a_queue(self, scene: Scene, server: RedisServer, java: Java) -> None:
        port, holder, mine = scene.port(), scene.claim("x"), scene.claim("x", fair=True)
        await port.attempt(holder, 0.0)
        assert isinstance(await port.attempt(mine, 0.0), Busy)
        assert isinstance(await port.attempt(mine, 0.0), Busy), "asked twice, one place"
        lock = java.lock(key(scene))
        assert lock.try_fair_lock() is not None
        queue = f"redisson_lock_queue:{{{key(scene)}}}"
        scores = f"redisson_lock_timeout:{{{key(scene)}}}"
        order = [redisson.REDISSON.mark(mine.id), lock.owner.encode()]
        assert server.ask("LRANGE", queue, 0, -1) == order
        assert server.ask("ZRANGE", scores, 0, -1) == order
        assert left(server, queue) == left(server, scores) == -1
        (info,) = await port.inspect(mine.key)
        assert (len(info.holders), info.waiters) == (1, ())
        await port.release(mine)
        assert (
            server.ask("LRANGE", queue, 0, -1) == server.ask("ZRANGE", scores, 0, -1) == order[1:]
        )
        await port.release(holder)
        assert lock.try_fair_lock() is None
        assert lock.fair_unlock()


class TestExcluding(_Layout):
    """Never both at once."""

    async def test_java_waits_for_us(self, scene: Scene, java: Java) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        async with locks.lock("x"):
            assert 0 < (lock.try_lock() or 0) <= 30_000
            with pytest.raises(NotLockedByCurrentThread):
                lock.unlock()
            assert not lock.renew()
        assert lock.try_lock() is None
        lock.unlock()

    async def test_we_wait_for_java(self, scene: Scene, java: Java) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        assert lock.try_lock() is None
        assert lock.try_lock() is None
        assert await locks.lock("x").acquire(timeout=0.05) is None
        assert not lock.unlock(), "it was entered twice"
        assert await locks.lock("x").acquire(blocking=False) is None
        assert lock.hold_count() == 1
        assert lock.unlock()
        assert await locks.lock("x").acquire(blocking=False) is not None

    async def test_java_is_seen(self, scene: Scene, java: Java) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        lock.try_lock()
        (info,) = await locks.list()
        (holder,) = info.holders
        assert (info.name, holder.label) == ("x", f"Redisson {java.id[:8]}")
        assert (holder.who, holder.fence) == ("thread 47", None)
        assert 0 < (holder.ttl_left or 0) <= 30
        lock.unlock()

    async def test_two_java_clients_and_two_of_ours_count_together(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        """What each adds is lost if two are inside at once."""
        name, rounds = key(scene), 10
        server.ask("SET", "sum", 0)

        def add() -> None:
            seen = server.ask("GET", "sum")
            assert isinstance(seen, bytes)
            server.ask("SET", "sum", int(seen) + 1)

        async def ours(locks: Any) -> None:
            for _ in range(rounds):
                async with locks.lock("x"):
                    await scene.pause(0.001)
                    add()

        pair = scene.connect(), scene.connect()
        crowd = [scene.spawn(lambda each=each: ours(each)) for each in pair]  # type: ignore[misc]
        theirs = java.lock(name)
        for _ in range(rounds):
            waiter = java.waiter(theirs)
            await happened(scene, waiter.entered)
            add()
            theirs.unlock()
        for each in crowd:
            await each.result()
        assert server.ask("GET", "sum") == str(3 * rounds).encode()
        server.ask("DEL", "sum")

    async def test_what_is_no_lock_is_an_error(self, scene: Scene, server: RedisServer) -> None:
        server.ask("SET", key(scene), "5")  # an RSemaphore
        with pytest.raises(BackendError, match="not a lock's"):
            await scene.connect().lock("x").acquire(blocking=False)
        server.ask("DEL", key(scene))

    async def test_a_read_write_lock_of_java_is_somebodys(
        self, scene: Scene, server: RedisServer
    ) -> None:
        server.ask("HSET", key(scene), "mode", "read", f"{'0' * 8}:1", 1)
        assert await scene.connect().lock("x").acquire(timeout=0) is None
        server.ask("DEL", key(scene))

    async def test_what_java_could_not_share_is_refused(self, scene: Scene) -> None:
        locks = scene.connect()
        with pytest.raises(Unsupported, match=r"redis\?layout=redisson.*'shared'"):
            locks.rwlock("x")
        with pytest.raises(Unsupported, match=r"redis\?layout=redisson.*'permits'"):
            locks.semaphore("x", 3)
        assert Capability.DURABLE not in scene.capabilities


class TestWakingUp(_Layout):
    """Nobody waits for a timer while the lock is free: every hold here lasts longer than a test."""

    async def test_java_is_woken_by_us(self, scene: Scene, java: Java) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        async with locks.lock("x", ttl=LONG / 1000):
            waiter = java.waiter(lock)
            await happened(scene, waiter.sleeping)
        await happened(scene, waiter.entered)
        assert waiter.messages == [b"0"]
        assert waiter.woken_by_message
        lock.unlock()

    async def test_we_are_woken_by_java(self, scene: Scene, java: Java) -> None:
        lock, waiting = java.lock(key(scene)), await _waiting(scene, java, LONG)
        lock.unlock()
        assert (await waiting).held

    async def test_we_are_woken_by_a_force_unlock(self, scene: Scene, java: Java) -> None:
        waiting = await _waiting(scene, java, LONG)
        assert java.lock(key(scene), thread=48).force_unlock()
        assert (await waiting).held

    async def test_a_message_that_is_none_is_harmless(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        waiting, lock = await _waiting(scene, java, LONG), java.lock(key(scene))
        for said in ("hello", "", "1"):
            server.ask("PUBLISH", lock.channel, said)
        lock.unlock()
        assert (await waiting).held

    async def test_a_cut_subscription_is_made_again(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        waiting, lock = await _waiting(scene, java, LONG), java.lock(key(scene))
        before = server.ask("PUBSUB", "NUMSUB", lock.channel)
        _cut_who_listens(server)

        async def listens() -> bool:
            return server.ask("PUBSUB", "NUMSUB", lock.channel) == before

        await scene.eventually(listens)
        lock.unlock()
        assert (await waiting).held

    async def test_what_was_told_while_the_subscription_was_cut_is_found_by_asking(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        port, mine, lock = scene.port(), scene.claim("x"), java.lock(key(scene))
        runtime = scene.runtime()
        lock.try_lock(LONG)
        assert isinstance(await port.attempt(mine, 0.0), Busy)
        with port.watch(mine, runtime.signal) as signal:
            assert isinstance(await port.attempt(mine, 0.0), Busy)
            _cut_who_listens(server)
            assert await signal.wait(runtime.now() + 20)
            assert isinstance(await port.attempt(mine, 0.0), Busy)
            lock.unlock()  # a thread does not listen again before it sleeps again
            assert await signal.wait(runtime.now() + 20)
            assert isinstance(await port.attempt(mine, 0.0), Granted)
        await port.release(mine)

    async def test_who_leaves_and_comes_back_at_once_listens(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        port, mine, lock = scene.port(), scene.claim("x"), java.lock(key(scene))
        lock.try_lock(LONG)
        for _ in range(3):
            with port.watch(mine, scene.runtime().signal):
                assert isinstance(await port.attempt(mine, 0.0), Busy)
                heard = server.ask("PUBSUB", "NUMSUB", lock.channel)
                assert heard == [lock.channel.encode(), 1]
        lock.unlock()

    async def test_nobody_listens_when_nobody_waits(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        lock = java.lock(key(scene))
        await (await _give_up(scene, java))

        async def silent() -> bool:
            return server.ask("PUBSUB", "NUMSUB", lock.channel) == [lock.channel.encode(), 0]

        await scene.eventually(silent)
        lock.unlock()

    async def test_a_java_holder_that_dies_is_waited_for_no_longer_than_its_lease(
        self, scene: Scene, java: Java
    ) -> None:
        waiting = await _waiting(scene, java, 2000)
        java.close()
        assert (await waiting).held

    async def test_java_gets_in_when_our_holder_dies(self, scene: Scene, java: Java) -> None:
        port, lock = scene.port(), java.lock(key(scene))
        await port.attempt(scene.claim("x", ttl=0.4), 0.0)
        waiter = java.waiter(lock)
        await happened(scene, waiter.entered)
        assert not waiter.woken_by_message
        lock.unlock()


class TestKeeping(_Layout):
    """Renewal, loss, numbers, force."""

    async def test_we_renew_as_their_watchdog_does(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        async with locks.lock("x", ttl=scene.safe_ttl) as lease:
            seen = [left(server, key(scene))]

            async def renewed() -> bool:
                """It only ever shrinks, except by a renewal."""
                seen.append(left(server, key(scene)))
                return seen[-1] > seen[-2]

            for _ in range(2):
                await scene.eventually(renewed)
            assert not lock.renew(), "theirs is for their own"
            assert lease.held
            assert lock.try_lock() is not None

    async def test_their_watchdog_keeps_us_out(self, scene: Scene, java: Java) -> None:
        lock = java.lock(key(scene))
        waiting = await _waiting(scene, java, 2000)
        assert lock.renew(), "30 s from now on"
        assert not waiting.done()
        lock.unlock()
        assert (await waiting).held

    async def test_the_number_grows_for_both(self, scene: Scene, java: Java) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        seen = []
        for _ in range(3):
            seen.append(lock.try_lock_and_get_number())
            lock.unlock()
            async with locks.lock("x") as lease:
                seen.append(lease.fence)
                assert (await locks.info("x")).holders[0].fence == lease.fence
        assert seen == [1, 2, 3, 4, 5, 6]

    async def test_java_breaks_our_hold(self, scene: Scene, java: Java) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        assert lock.force_unlock()
        assert lock.try_lock() is None
        assert await lease.lost.wait(20)
        assert lease.state is State.LOST
        with pytest.raises(LeaseLost):
            await lease.release()
        assert lock.hold_count() == 1, "what is Java's now stays"
        lock.unlock()

    async def test_a_note_to_our_holder_does_not_disturb_java(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        locks, other, lock = scene.connect(), scene.connect(label="ann"), java.lock(key(scene))
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        waiter = java.waiter(java.lock(key(scene), thread=48))
        await happened(scene, waiter.sleeping)
        assert await other.force_release("x", reason="stuck")
        await happened(scene, waiter.entered)
        (note,) = [each for each in keys(server) if each.startswith("locknut_broken:")]
        assert 0 < left(server, note) <= scene.safe_ttl * 1000
        assert await lease.lost.wait(20)
        assert lease.reason == "broken: stuck (by ann)"
        theirs = java.lock(key(scene), thread=48)
        assert theirs.hold_count() == 1, "what is Java's now stays"
        theirs.unlock()
        assert lock.try_lock() is None
        lock.unlock()

    async def test_we_break_a_hold_of_java(self, scene: Scene, java: Java) -> None:
        locks, lock = scene.connect(), java.lock(key(scene))
        lock.try_lock()
        waiter = java.waiter(java.lock(key(scene), thread=48))
        await happened(scene, waiter.sleeping)
        with pytest.raises(StaleFence):
            await locks.force_release("x", fence=1)
        assert await locks.force_release("x")
        with pytest.raises(NotLockedByCurrentThread):
            lock.unlock()
        await happened(scene, waiter.entered)
        java.lock(key(scene), thread=48).unlock()

    async def test_a_hold_that_ran_out_is_not_taken_from_java(
        self, scene: Scene, java: Java
    ) -> None:
        port, mine, lock = scene.port(), scene.claim("x", ttl=scene.ttl), java.lock(key(scene))
        await port.attempt(mine, 0.0)
        waiter = java.waiter(lock)
        await happened(scene, waiter.entered)
        assert await port.renew([mine]) == [Renewal.LOST]
        assert not await port.release(mine)
        assert not await port.release(mine, outcome_unknown=True)
        assert lock.hold_count() == 1
        lock.unlock()

    async def test_a_broken_owner_is_not_the_next_hold_of_the_same_owner(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        """Counting alone would take the second one's hold for the first one's, and free it."""
        port = scene.port()
        first, second = scene.claim("x", owner="me"), scene.claim("x", owner="me")
        await port.attempt(first, 0.0)
        assert java.lock(key(scene)).force_unlock()
        assert isinstance(await port.attempt(second, 0.0), Granted)
        assert await port.renew([first, second]) == [Renewal.LOST, Renewal.HELD]
        assert not await port.release(first)
        assert list(table(server, key(scene)).values()) == ["1"]
        assert await port.release(second)

    async def test_an_attempt_whose_answer_was_lost_counts_once(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        port, mine, lock = scene.port(), scene.claim("x", owner="me"), java.lock(key(scene))
        first = await port.attempt(mine, 0.0)
        assert await port.attempt(mine, 0.0) == first == Granted(1)
        assert list(table(server, key(scene)).values()) == ["1"]
        assert await port.release(mine, outcome_unknown=True)
        assert isinstance(await port.attempt(mine, 0.0), Busy), "it came late (L3)"
        assert lock.try_lock() is None
        lock.unlock()
        stone = f"locknut_tombstone:{{{key(scene)}}}:{mine.id}"
        assert 0 < left(server, stone) <= 120_000

    async def test_nothing_is_handed_over_inside_the_process(self, scene: Scene) -> None:
        """Others see a free lock between any two of ours."""
        locks = scene.connect()
        news, fences = scene.news(locks), []

        async def enter() -> None:
            async with locks.lock("x") as lease:
                fences.append(lease.fence)

        async with locks.lock("x"):
            crowd = [scene.spawn(enter) for _ in range(3)]
            await news.heard("waiting", 3)
            released = scene.now()
        for each in crowd:
            await each.result()
        assert fences == [2, 3, 4]
        assert scene.now() - released > 3 * 0.02, "each steps back, or others never get in (L14)"
        assert "handed_over" not in news.kinds()


class TestInTurn(_Layout):
    """`fair=True` and `getFairLock` stand in one queue."""

    async def test_first_come_first_served_across_both(self, scene: Scene, java: Java) -> None:
        locks, order = scene.connect(), []
        news, late = scene.news(locks), java.lock(key(scene), thread=48)
        holder = java.lock(key(scene))
        assert holder.try_fair_lock() is None

        async def enter() -> None:
            async with locks.lock("x", fair=True):
                order.append("ours")

        first = scene.spawn(enter)
        await news.heard("waiting")
        second = java.waiter(late, fair=True)
        await happened(scene, second.sleeping)
        third = scene.spawn(enter)
        await news.heard("waiting", 2)
        holder.fair_unlock()
        await first.result()
        await happened(scene, second.entered)
        assert (order, second.messages) == (["ours"], [b"0"])
        late.fair_unlock()
        await third.result()

    async def test_a_newcomer_does_not_overtake(self, scene: Scene, java: Java) -> None:
        port, lock = scene.port(), java.lock(key(scene))
        holder, waiter, newcomer = (scene.claim("x", fair=True) for _ in range(3))
        await port.attempt(holder, 0.0)
        assert isinstance(await port.attempt(waiter, 0.0), Busy)
        await port.release(holder)
        assert lock.try_fair_lock() is not None
        assert isinstance(await port.attempt(newcomer, 0.0), Busy)
        assert isinstance(await port.attempt(waiter, 0.0), Granted)
        for each in (waiter, newcomer):
            await port.release(each)
        assert lock.try_fair_lock() is None
        lock.fair_unlock()

    async def test_a_plain_lock_overtakes_the_queue(self, scene: Scene) -> None:
        """As in Java: one kind of lock per name."""
        port, holder = scene.port(), scene.claim("x", fair=True)
        waiter, plain = scene.claim("x", fair=True), scene.claim("x")
        await port.attempt(holder, 0.0)
        assert isinstance(await port.attempt(waiter, 0.0), Busy)
        await port.release(holder)
        assert isinstance(await port.attempt(plain, 0.0), Granted)
        for each in (plain, waiter):
            await port.release(each)

    async def test_a_java_waiter_that_gets_in_does_not_cost_our_place(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        """He takes his 300 s out of our time, however long he waited."""
        port, lock = scene.port(), java.lock(key(scene))
        holder, second, third = (scene.claim("x", fair=True) for _ in range(3))
        await port.attempt(holder, 0.0)
        assert lock.try_fair_lock() is not None
        scores = f"redisson_lock_timeout:{{{key(scene)}}}"
        server.ask("ZINCRBY", scores, -250_000, lock.owner)  # he has waited for long
        for each in (second, third):
            assert isinstance(await port.attempt(each, 0.0), Busy)
        await port.release(holder)
        assert lock.try_fair_lock() is None
        lock.fair_unlock()
        assert isinstance(await port.attempt(third, 0.0), Busy)
        assert isinstance(await port.attempt(second, 0.0), Granted)
        await port.release(second)
        assert isinstance(await port.attempt(third, 0.0), Granted)
        await port.release(third)

    async def test_one_of_ours_that_gets_in_does_not_cost_the_next_its_place(
        self, scene: Scene
    ) -> None:
        port = scene.port()
        holder, first, second, newcomer = (scene.claim("x", fair=True) for _ in range(4))
        await port.attempt(holder, 0.0)
        for each in (first, second):
            await port.attempt(each, 0.0)
        await port.release(holder)
        assert isinstance(await port.attempt(first, 0.0), Granted)
        await port.release(first)
        assert isinstance(await port.attempt(newcomer, 0.0), Busy)
        assert isinstance(await port.attempt(second, 0.0), Granted)
        for each in (second, newcomer):
            await port.release(each)

    async def test_dead_waiters_of_ours_are_passed_over_all_at_once(
        self, scene: Scene, java: Java, server: RedisServer
    ) -> None:
        """Each a little later than the one before would make fifty of them cost minutes (L6)."""
        port, lock, holder = scene.port(), java.lock(key(scene)), scene.claim("x")
        dead = [scene.claim("x", fair=True) for _ in range(20)]
        await port.attempt(holder, 0.0)
        for each in dead:
            await port.attempt(each, 0.0)
        scores = f"redisson_lock_timeout:{{{key(scene)}}}"
        latest = server.ask("ZRANGE", scores, -1, -1, "WITHSCORES")
        assert isinstance(latest, list)
        assert isinstance(latest[1], bytes)
        late = float(latest[1]) - _server_ms(server) - 5_000
        assert late <= 0, "they have to ask again to stay"
        for each in dead:
            server.ask("ZINCRBY", scores, -5_100, redisson.REDISSON.mark(each.id))  # they did not
        await port.release(holder)
        assert lock.try_fair_lock() is None
        lock.fair_unlock()

    async def test_whoever_drops_a_dead_head_wakes_the_next(
        self, scene: Scene, server: RedisServer
    ) -> None:
        """A Java waiter behind it sleeps until it is told, or for its own long while."""
        port, mine, dead = scene.port(), scene.claim("x", fair=True), "dead:0"
        name, java = key(scene), "java:1"
        server.ask("RPUSH", f"redisson_lock_queue:{{{name}}}", dead, java)
        scores = f"redisson_lock_timeout:{{{name}}}"
        server.ask("ZADD", scores, 1, dead, _server_ms(server) + 300_000, java)
        with server.connect() as wire:
            wire.ask("SUBSCRIBE", f"redisson_lock__channel:{{{name}}}:{java}")
            assert isinstance(await port.attempt(mine, 0.0), Busy)
            assert wire.read() == [
                b"message",
                f"redisson_lock__channel:{{{name}}}:{java}".encode(),
                b"0",
            ]
        await port.release(mine)
        server.ask("DEL", f"redisson_lock_queue:{{{name}}}", scores)


async def happened(scene: Scene, event: Any) -> None:
    async def looked() -> bool:
        return bool(event.is_set())

    await scene.eventually(looked)


class _Later:
    """What a worker will have."""

    def __init__(self, worker: Any, over: list[Any]) -> None:
        self._worker, self._over = worker, over

    def done(self) -> bool:
        return bool(self._over)

    def __await__(self) -> Any:
        return self._worker.result().__await__()


async def _waiting(scene: Scene, java: Java, lease: int) -> _Later:
    """Java has it for so long, and one of ours waits for it, asleep."""
    assert java.lock(key(scene)).try_lock(lease) is None
    locks, over = scene.connect(), list[Any]()
    news = scene.news(locks)

    async def wait() -> Any:
        over.append(await locks.lock("x").acquire())
        return over[0]

    later = _Later(scene.spawn(wait), over)
    await news.heard("waiting")
    return later


async def _give_up(scene: Scene, java: Java) -> _Later:
    assert java.lock(key(scene)).try_lock(LONG) is None
    lock = scene.connect().lock("x")

    async def wait() -> Any:
        assert await lock.acquire(timeout=0.1) is None

    return _Later(scene.spawn(wait), [])


def _cut_who_listens(server: RedisServer) -> None:
    with server.connect() as wire:
        listing = wire.ask("CLIENT", "LIST")
        assert isinstance(listing, bytes)
        for line in listing.decode().splitlines():
            facts = dict(part.split("=", 1) for part in line.split(" ") if "=" in part)
            if facts["sub"] != "0":
                wire.ask("CLIENT", "KILL", "ID", facts["id"])


def _server_ms(server: RedisServer) -> float:
    told = server.ask("TIME")
    assert isinstance(told, list)
    seconds, micro = (int(each) for each in told if isinstance(each, bytes))
    return seconds * 1000 + micro / 1000
