"""Fork: the child owns nothing of the parent's, harms nothing, and can start anew (S17)."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import warnings
from collections.abc import Iterator

import pytest

import locknut
from locknut import aio
from tests.api.crowd import TTL, in_thread, renewed
from tests.forks.child import in_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(autouse=True)
def _fork_with_threads_is_the_point() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def test_the_childs_leases_are_inert(locks: locknut.Locks) -> None:
    lock = locks.lock("x", ttl=30)
    lease = lock.acquire()
    assert lease is not None

    def check() -> None:
        for use in (lease.check, lease.release, lease.renew, lease.detach):
            with pytest.raises(locknut.NotHeld, match="process that forked"):
                use()
        with pytest.raises(locknut.NotHeld):
            lock.release()
        assert not lease.held
        assert not lock.held
        assert repr(lease)

    in_child(check)
    assert lease.held
    lease.check()
    assert in_thread(lock.acquire, False) is None
    lease.renew()
    lease.release()


def test_dropping_it_in_the_child_frees_nothing(locks: locknut.Locks) -> None:
    kept = [locks.lock("x", ttl=30).acquire()]

    def check() -> None:
        kept.clear()
        gc.collect()

    in_child(check)
    assert in_thread(locks.lock("x").acquire, False) is None
    lease = kept.pop()
    assert lease is not None
    lease.release()


def test_leaving_with_in_the_child_says_so(locks: locknut.Locks) -> None:
    def check() -> None:
        with pytest.raises(locknut.NotHeld, match="the parent's"):
            context.__exit__(None, None, None)

    context = locks.lock("x")
    with context as lease:
        in_child(check)
        assert lease.held


def test_a_new_connect_works_in_the_child(locks: locknut.Locks, url: str) -> None:
    with locks.lock("x", ttl=30) as lease:

        def check() -> None:
            with locknut.connect(url) as mine, mine.lock("x", ttl=TTL, timeout=0) as again:
                assert again.held
                renewed(again)  # by a keeper of its own

        in_child(check)
        assert lease.held


def test_forking_while_others_hold_and_wait(locks: locknut.Locks) -> None:
    """The fork may come while another thread is inside any of the mutexes."""
    import threading

    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            with locks.lock(f"x{number % 2}", ttl=5):
                pass

    gc.collect()
    gc.freeze()  # each child collects what came from here on, not all that other tests left
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()

    def check() -> None:
        with locks.lock("x0", timeout=0), locks.lock("x1", timeout=0):
            pass
        gc.collect()

    try:
        for _ in range(25):
            in_child(check)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        gc.unfreeze()
    with locks.lock("x0"), locks.lock("x1"):
        pass


def test_forking_inside_a_loop(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks, locks.lock("x", ttl=30) as lease:

            def check() -> None:
                assert not lease.held
                with pytest.raises(locknut.NotHeld, match="process that forked"):
                    lease.check()

            in_child(check)
            assert lease.held
            await lease.renew()

    asyncio.run(main())


def test_multiprocessing_children_exit_quietly(locks: locknut.Locks) -> None:
    """A child that ends the normal way (atexit and all) must not release the parent's lock."""
    with locks.lock("x", ttl=30) as lease:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            import atexit

            atexit._run_exitfuncs()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert lease.held
        lease.renew()
        assert in_thread(locks.lock("x").acquire, False) is None
