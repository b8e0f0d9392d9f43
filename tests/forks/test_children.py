"""Locks made before a fork work in the child; the parent's holds are neither entered nor freed."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

import locknut
from locknut import aio
from tests.api.crowd import PATIENCE, TTL, Started, in_thread, renewed
from tests.forks.child import in_child, sockets, start_child, wait_for
from tests.forks.conftest import EVERY, SHARED, single_permit

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
each_engine = pytest.mark.parametrize("url", EVERY, indirect=True)
each_shared = pytest.mark.parametrize("url", SHARED, indirect=True)


@each_engine
@pytest.mark.slow
def test_everything_made_before_works_in_the_child(url: str) -> None:
    with locknut.connect(url) as locks:
        lock, rwlock = locks.lock("x", ttl=TTL), locks.rwlock("r", timeout=PATIENCE)
        semaphore, both = single_permit(locks), locks.all("a", "b")
        across = locknut.all_of(locks.lock("c"), locks.lock("d"))

        @locks.locked("f:{number}", timeout=PATIENCE)
        def decorated(number: int) -> int:
            assert locks.lock(f"f:{number}").held
            return number

        def check() -> None:
            with lock as lease, lock, rwlock.read(), semaphore, both, across:
                assert lock.held
                assert locks.lock("x").held
                assert locks.info("s").locked
                assert locks.info("x").locked
                renewed(lease)  # by a keeper of its own
            with rwlock.write():
                assert {each.name for each in locks.list()} == {"r"}
            assert decorated(3) == 3
            moved = locks.lock("moved").acquire()
            assert moved is not None
            locks.attach(moved.detach()).release()
            in_child(again)  # a child of the child

        def again() -> None:
            assert decorated(4) == 4
            with lock, both:
                pass

        with lock:
            pass  # so that there are connections to inherit
        in_child(check)
        again()


@each_engine
@pytest.mark.slow
def test_everything_made_before_works_on_a_loop_of_the_child(url: str) -> None:
    locks = aio.connect(url)
    lock, rwlock = locks.lock("x", ttl=TTL), locks.rwlock("r", timeout=PATIENCE)
    semaphore, both = single_permit(locks), locks.all("a", "b")

    @locks.locked("f:{number}", timeout=PATIENCE)
    async def decorated(number: int) -> int:
        assert locks.lock(f"f:{number}").held
        return number

    async def use(*, keep: bool = False) -> None:
        async with lock as lease, lock, rwlock.read(), semaphore, both:
            assert lock.held
            assert locks.lock("x").held
            assert (await locks.info("s")).locked
            assert (await locks.info("x")).locked
            if keep:
                await asyncio.to_thread(renewed, lease)
        async with rwlock.write():
            assert {each.name for each in await locks.list()} == {"r"}
        assert await decorated(3) == 3

    async def main() -> None:
        await use()
        in_child(lambda: asyncio.run(use(keep=True)))  # from inside a loop, which is the parent's
        in_child(lambda: asyncio.run(use()))
        await use()
        await locks.close()

    asyncio.run(main())


@each_shared
def test_the_parents_hold_is_neither_entered_nor_freed(url: str) -> None:
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        lock = locks.lock("x", ttl=30)
        lease = lock.acquire()
        assert lease is not None

        def check() -> None:
            assert not lock.held
            assert not lease.held
            assert lock.acquire(blocking=False) is None
            with pytest.raises(locknut.NotHeld, match="does not hold it"):
                lock.release()
            for use in (lease.check, lease.release, lease.renew, lease.detach, lease.__enter__):
                with pytest.raises(locknut.NotHeld, match="process that forked"):
                    use()
            locks.close()

        in_child(check)
        lease.check()
        lease.renew()
        assert others.lock("x").acquire(blocking=False) is None
        lease.release()
        with others.lock("x", timeout=PATIENCE):
            in_child(lambda: None)


@each_shared
def test_the_same_with_tasks(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks, aio.connect(url) as others:
            lock = locks.lock("x", ttl=30)
            lease = await lock.acquire()
            assert lease is not None

            async def use() -> None:
                assert not lock.held
                assert await lock.acquire(blocking=False) is None
                with pytest.raises(locknut.NotHeld):
                    await lock.release()
                for use in (lease.release, lease.renew, lease.detach, lease.__aenter__):
                    with pytest.raises(locknut.NotHeld, match="process that forked"):
                        await use()
                await locks.close()

            in_child(lambda: asyncio.run(use()))
            lease.check()
            await lease.renew()
            assert await others.lock("x").acquire(blocking=False) is None
            await lease.release()
            async with others.lock("x", timeout=PATIENCE):
                pass

    asyncio.run(main())


@each_shared
def test_parent_and_child_exclude_each_other(url: str) -> None:
    """With the same Lock, each waiting for the other."""
    with locknut.connect(url) as locks:
        lock = locks.lock("x", timeout=PATIENCE)
        ours, theirs = os.pipe(), os.pipe()
        with lock:

            def check() -> None:
                assert lock.acquire(blocking=False) is None
                os.write(theirs[1], b"tried")
                with lock:
                    os.write(theirs[1], b"has it")
                    os.read(ours[0], 1)

            pid = start_child(check)
            assert os.read(theirs[0], 5) == b"tried"
        assert os.read(theirs[0], 6) == b"has it"
        assert lock.acquire(blocking=False) is None
        os.write(ours[1], b"!")
        with lock:
            wait_for(pid)
        for end in (*ours, *theirs):
            os.close(end)


@each_shared
def test_a_fork_amid_the_acquires_of_other_threads(url: str) -> None:
    """It may come while they are inside any of the mutexes, and have any of the connections."""
    with locknut.connect(url) as locks:
        stop, turns = threading.Event(), 6
        busy = [locks.lock(f"x{number}", ttl=30) for number in range(2)]
        free = locks.lock("free", timeout=PATIENCE)

        def work(number: int) -> None:
            while not stop.is_set():
                with busy[number % 2]:
                    pass

        def check() -> None:
            assert not ours() & sockets()
            with free, locks.all("a", "b"):
                pass

        before = sockets()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(turns):
                known = sockets() - before

                def ours(known: set[str] = known) -> set[str]:
                    return known

                in_child(check)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        with busy[0], busy[1], free:
            pass


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
@each_shared
@pytest.mark.slow
def test_no_socket_is_shared(url: str) -> None:
    """Neither those of who waits, nor the keeper's."""
    before = sockets()
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        with others.lock("y", ttl=TTL) as theirs:
            waiter = Started(enter, locks.lock("y", timeout=PATIENCE))
            with locks.lock("x", ttl=TTL) as lease:
                renewed(lease)
                renewed(theirs)
                until_waiting(url, "y")
                ours = sockets() - before

                def check() -> None:
                    assert not ours & sockets()

                in_child(check)
        waiter.result()
    if not url.startswith("file:"):
        assert ours, "nothing was looked at"


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
@each_shared
@pytest.mark.slow
def test_nor_is_one_of_a_loop(url: str) -> None:
    async def main() -> None:
        before = sockets()
        async with aio.connect(url) as locks, locks.lock("x", ttl=TTL) as lease:
            await asyncio.to_thread(renewed, lease)
            ours = sockets() - before

            def check() -> None:
                assert not ours & sockets()

            in_child(check)
            await lease.renew()
        if not url.startswith("file:"):
            assert ours, "nothing was looked at"

    asyncio.run(main())


@each_shared
def test_the_copy_of_a_waiting_task_withdraws_nothing(url: str) -> None:
    """Its claim is the parent's. Whoever collects the copy in the child ends it there."""

    async def main() -> None:
        async with aio.connect(url) as locks, aio.connect(url) as others:
            first = await others.lock("x", ttl=30).acquire()
            waiting = asyncio.create_task(locks.lock("x", ttl=30).acquire())
            await asyncio.to_thread(until_waiting, url)

            def check() -> None:
                waiting.get_coro().close()  # as the collector does
                asyncio.run(use())

            async def use() -> None:
                async with locks.lock("another", timeout=PATIENCE):
                    pass
                assert (await locks.info("x")).waiters, "it was withdrawn"

            in_child(check)
            assert first is not None
            await first.release()
            lease = await asyncio.wait_for(waiting, PATIENCE)
            assert lease is not None
            await lease.release()

    asyncio.run(main())


def enter(lock: locknut.Lock) -> None:
    with lock:
        pass


def until_waiting(url: str, name: str = "x") -> None:
    with locknut.connect(url) as locks:
        while not locks.info(name).waiters:
            threading.Event().wait(0.01)


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_threads_of_the_child_that_come_first_share_one_client(url: str) -> None:
    with locknut.connect(url) as locks:

        def check() -> None:
            here = threading.Barrier(8)
            found = []

            def use() -> None:
                here.wait(PATIENCE)
                found.append(locks._client)

            threads = [threading.Thread(target=use) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(found) == 8
            assert len(set(map(id, found))) == 1

        in_child(check)


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_what_was_closed_stays_closed(url: str) -> None:
    locks = locknut.connect(url)
    lock = locks.lock("x")
    locks.close()

    def check() -> None:
        for use in (lock.acquire, locks.list, lambda: locks.all("a", "b").acquire()):
            with pytest.raises(locknut.ConfigurationError, match="was closed"):
                use()

    in_child(check)


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_closing_it_in_the_child_closes_it_there(url: str) -> None:
    with locknut.connect(url) as locks:

        def check() -> None:
            locks.close()
            with pytest.raises(locknut.ConfigurationError, match="was closed"):
                locks.lock("x").acquire()

        in_child(check)
        with locks.lock("x"):
            pass


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_listeners_hear_of_the_child_too(url: str) -> None:
    """They are functions, and the child has a copy of each."""
    heard: list[str] = []
    with locknut.connect(url) as locks:
        locks.on_event(lambda event: heard.append(event.kind))

        def check() -> None:
            heard.clear()
            with locks.lock("x"):
                pass
            assert heard == ["granted", "released"]

        in_child(check)


@pytest.mark.parametrize("url", ["memory"], indirect=True)
def test_the_default_is_one_in_the_child(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made before the fork and what is made after it is the same lock, and re-entrant."""
    monkeypatch.setenv("LOCKNUT_URL", url)
    monkeypatch.setattr(locknut, "_default", [])
    lock = locknut.lock("x", timeout=0)

    def check() -> None:
        with lock, locknut.lock("x", timeout=0) as lease:
            assert lease.held

    with lock:
        in_child(check)
    locknut.default().close()


@pytest.mark.redis
@pytest.mark.parametrize("url", [pytest.param("redis", marks=pytest.mark.redis)], indirect=True)
def test_with_settings_of_a_users_own_client(url: str) -> None:
    """Its connections are not used, so there is nothing of it that a child could share."""
    import redis

    with redis.Redis.from_url(url.partition("?")[0]) as client:
        client.ping()
        with locknut.connect(client, namespace=url.partition("=")[2]) as locks:
            lock = locks.lock("x", ttl=30)
            with lock as lease:

                def check() -> None:
                    assert lock.acquire(blocking=False) is None
                    with locks.lock("y", timeout=PATIENCE):
                        pass

                in_child(check)
                lease.renew()
            assert in_thread(lock.acquire)
