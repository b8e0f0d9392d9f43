"""Fork: the child owns nothing of the parent's, harms nothing, and can start anew (S17, F-P7)."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator

import pytest

import locknut
from locknut import aio
from tests.api.crowd import TTL, in_thread, renewed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
HANGS = 60.0
"""Seconds after which a child is taken to hang."""


@pytest.fixture(autouse=True)
def _fork_with_threads_is_the_point() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_child(check: Callable[[], object]) -> None:
    """Run it in a forked child, and fail if it fails there."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        faulthandler.dump_traceback_later(HANGS, exit=True)  # then it is seen where
        try:
            check()
            code = 0
        except BaseException:  # noqa: BLE001  # told by the exit code
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_childs_leases_are_inert(locks: locknut.Locks) -> None:
    lock = locks.lock("x", ttl=30)
    lease = lock.acquire()
    assert lease is not None

    def check() -> None:
        of_lease = (lease.check, lease.release, lease.renew, lease.detach)
        for use in (*of_lease, lock.release, lock.acquire):
            with pytest.raises((locknut.NotHeld, locknut.ConfigurationError)) as caught:
                use()
            assert "fork" in str(caught.value) or "held" in str(caught.value)
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
        with pytest.raises((locknut.NotHeld, locknut.ConfigurationError)):
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


def test_the_old_locks_say_that_they_are_old(locks: locknut.Locks) -> None:
    def check() -> None:
        with pytest.raises(locknut.ConfigurationError, match="fork"):
            locks.lock("x").acquire()
        with pytest.raises(locknut.ConfigurationError, match="fork"):
            locks.list()
        locks.close()

    in_child(check)
    with locks.lock("x"):
        pass


def test_the_default_works_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKNUT_URL", "memory:default")
    monkeypatch.setattr(locknut, "_default", [])
    with locknut.lock("x"):

        def check() -> None:
            with locknut.lock("x", timeout=0) as lease:
                assert lease.held

        in_child(check)
    locknut.default().close()


def test_forking_while_others_hold_and_wait(locks: locknut.Locks, url: str) -> None:
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
        with locknut.connect(url) as mine, mine.lock("x0", timeout=0), mine.lock("x1", timeout=0):
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
                with pytest.raises((locknut.NotHeld, locknut.ConfigurationError)):
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
