"""The fixtures for users: what they promise, as a user's own tests would see it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = {
    "fresh_and_empty": """
        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(locks, turn):
            assert locks.list() == []
            assert locks.lock("x").acquire().held
    """,
    "busy_at_once": """
        def test_it(locks, hold):
            with hold("x") as other:
                assert locks.lock("x").acquire(blocking=False) is None
                with pytest.raises(locknut.AcquireTimeout, match="somebody else"):
                    with locks.lock("x", timeout=0):
                        raise AssertionError
            with locks.lock("x") as lease:
                assert lease.fence > other.fence
    """,
    "a_wait_of_the_test_moves_the_clock": """
        def test_it(locks, hold, clock):
            before = clock.now()
            with hold("x"):
                assert locks.lock("x").acquire(timeout=3600) is None
            assert clock.now() == pytest.approx(before + 3600)
    """,
    "somebody_else_runs_out": """
        def test_it(locks, hold, clock):
            hold("x", ttl=10)
            assert locks.lock("x").acquire(timeout=9) is None
            assert locks.lock("x").acquire(timeout=2) is not None
    """,
    "somebody_else_releases_while_a_thread_waits": """
        def test_it(locks, hold):
            other = hold("x")
            waiting, got = threading.Event(), []
            locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
            thread = threading.Thread(target=lambda: got.append(locks.lock("x").acquire()))
            thread.start()
            assert waiting.wait(10)
            other.release()
            other.release()
            thread.join(10)
            assert got[0].fence
    """,
    "a_waiting_thread_times_out_when_the_clock_says_so": """
        def test_it(locks, hold, clock):
            hold("x")
            waiting, got = threading.Event(), []
            locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
            lock = locks.lock("x", timeout=60)
            thread = threading.Thread(target=lambda: got.append(lock.acquire()))
            thread.start()
            assert waiting.wait(10)
            clock.advance(59)
            assert not got
            clock.advance(2)
            thread.join(10)
            assert got == [None]
    """,
    "what_is_held_already": """
        def test_it(locks, hold):
            with locks.lock("x"):
                with pytest.raises(pytest.fail.Exception, match="is held by"):
                    hold("x")
    """,
    "expiry": """
        def test_it(locks, clock):
            told = []
            lease = locks.lock("x", ttl=30, auto_renew=False, on_lost=told.append).acquire()
            clock.advance(29)
            assert lease.held and 0 < lease.remaining < 1 and not told
            clock.advance(1)
            assert lease.state is locknut.State.LOST
            assert told == [lease]
            assert locks.lock("x").acquire(blocking=False) is not None
    """,
    "renewal": """
        def test_it(locks, clock):
            with locks.lock("x", ttl=30) as lease:
                for _ in range(20):
                    clock.advance(25)
                    lease.check()
                    assert 19 < lease.remaining <= 30
    """,
    "max_hold": """
        def test_it(locks, clock):
            lease = locks.lock("x", ttl=30, max_hold=100).acquire()
            clock.advance(99)
            lease.check()
            clock.advance(2)
            with pytest.raises(locknut.LeaseLost, match="max_hold"):
                lease.check()
    """,
    "lose": """
        def test_it(locks, lose):
            told = []
            with pytest.raises(locknut.LeaseLost):
                with locks.lock("x", on_lost=told.append) as lease:
                    lose(lease)
                    assert told == [lease]
                    assert not lease.held
                    assert locks.lock("x").acquire(blocking=False) is not None
    """,
    "unreachable": """
        def test_it(locks, fail_backend, clock):
            with fail_backend():
                with pytest.raises(locknut.BackendUnavailable):
                    locks.lock("x").acquire()
            assert locks.lock("x").acquire(blocking=False) is not None
    """,
    "unreachable_while_held": """
        def test_it(locks, fail_backend, clock):
            lease = locks.lock("x", ttl=30).acquire()
            with fail_backend():
                clock.advance(15)
                assert lease.state is locknut.State.AT_RISK
                clock.advance(20)
                assert lease.state is locknut.State.LOST
    """,
    "unreachable_for_a_while": """
        def test_it(locks, fail_backend, clock):
            lease = locks.lock("x", ttl=30).acquire()
            with fail_backend():
                clock.advance(15)
            clock.advance(5)
            assert lease.state is locknut.State.HELD
            lease.release()
    """,
    "assert_held": """
        def test_it(locks, assert_held):
            with locks.lock("x"):
                assert_held("x")
                with pytest.raises(pytest.fail.Exception, match="nobody holds 'y'.*'x'"):
                    assert_held("y")
            with pytest.raises(pytest.fail.Exception, match="none"):
                assert_held("x")
    """,
    "code_that_uses_the_default": """
        def test_it(locks, hold):
            with hold("x"):
                assert locknut.lock("x").acquire(blocking=False) is None
            with locknut.lock("x"):
                assert locks.lock("x").locked()
    """,
    "waiters_in_line": """
        def test_it(locks, hold, clock):
            other = hold("x")
            seen = threading.Semaphore(0)
            locks.on_event(lambda event: seen.release() if event.kind == "waiting" else None)
            order = []
            def work(n):
                with locks.lock("x") as lease:
                    order.append(n)
            threads = []
            for n in range(5):
                threads.append(threading.Thread(target=work, args=(n,)))
                threads[-1].start()
                assert seen.acquire(timeout=10)
            other.release()
            for thread in threads:
                thread.join(10)
            assert order == [0, 1, 2, 3, 4]
    """,
    "readers_and_permits": """
        def test_it(locks, hold):
            with hold("x", mode=locknut.Mode.SHARED):
                assert locks.rwlock("x").read().acquire(blocking=False) is not None
            with hold("s", mode=locknut.Mode.PERMIT, permits=2):
                semaphore = locks.semaphore("s", 2)
                assert semaphore.acquire(blocking=False) is not None
                assert semaphore.acquire(blocking=False) is None
    """,
    "aio_busy": """
        def test_it(aio_locks, hold, clock):
            async def main():
                with hold("x"):
                    with pytest.raises(locknut.AcquireTimeout):
                        async with aio_locks.lock("x", timeout=5):
                            raise AssertionError
                async with aio_locks.lock("x"):
                    pass
            asyncio.run(main())
    """,
    "aio_lose": """
        def test_it(aio_locks, lose):
            async def main():
                with pytest.raises(locknut.LeaseLost):
                    async with aio_locks.lock("x") as lease:
                        lose(lease)
                        await asyncio.sleep(10)
                        raise AssertionError
            asyncio.run(main())
    """,
    "aio_clock": """
        def test_it(aio_locks, hold, clock):
            async def main():
                hold("x")
                task = asyncio.create_task(aio_locks.lock("x").acquire(timeout=60))
                await asyncio.sleep(0)
                clock.advance(59)
                await clock.settled()
                assert not task.done()
                clock.advance(2)
                await clock.settled()
                assert task.done() and task.result() is None
            asyncio.run(main())
    """,
    "aio_expiry": """
        def test_it(aio_locks, clock):
            async def main():
                told = []
                lock = aio_locks.lock("x", ttl=30, auto_renew=False, on_lost=told.append)
                lease = await lock.acquire()
                clock.advance(31)
                await clock.settled()
                assert told == [lease] and not lease.held
                renewed = await aio_locks.lock("y", ttl=30).acquire()
                clock.advance(300)
                await clock.settled()
                assert renewed.held
            asyncio.run(main())
    """,
    "aio_and_blocking_share_the_engine": """
        def test_it(aio_locks, locks):
            async def main():
                async with aio_locks.lock("x"):
                    assert locks.lock("x").acquire(blocking=False) is None
            asyncio.run(main())
    """,
    "the_clock_does_not_run_backwards": """
        def test_it(clock):
            with pytest.raises(ValueError):
                clock.advance(-1)
    """,
}
HEAD = "import asyncio, threading\nimport pytest, locknut\n"


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """In a process of its own; with the plugin, also where Locknut is not installed."""
    found = bool(entry_points(group="pytest11", name="locknut"))
    plugin = () if found else ("-p", "locknut.testing.plugin")
    return pytester.runpytest_subprocess(*plugin, "-p", "no:cacheprovider", "-Werror", *options)


def test_what_users_write(pytester: pytest.Pytester) -> None:
    files = {name: HEAD + textwrap.dedent(text) for name, text in TESTS.items()}
    pytester.makepyfile(**{f"test_{name}": text for name, text in files.items()})
    result = run(pytester)
    assert result.ret == 0, result.stdout.str()
    result.assert_outcomes(passed=len(TESTS) + 1)  # one is parametrised


def test_the_examples_of_the_documentation(pytester: pytest.Pytester) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "testing.md").read_text()
    blocks = re.findall(r"```python fragment\n(.*?)```", page, re.DOTALL)
    examples = [block for block in blocks if "def test_" in block]
    pytester.makepyfile(**{f"test_{n}": block for n, block in enumerate(examples)})
    result = run(pytester)
    assert result.ret == 0, result.stdout.str()
    result.assert_outcomes(passed=6)


def test_failing_is_possible(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(assert_held):\n    assert_held('x')\n")
    run(pytester).assert_outcomes(failed=1)


def test_the_fixtures_are_listed_with_their_sentence(pytester: pytest.Pytester) -> None:
    lines = run(pytester, "--fixtures").stdout
    lines.fnmatch_lines_random(["clock*", "locks*", "aio_locks*", "hold*", "lose*"])


def test_importing_it_is_cheap() -> None:
    code = (
        "import pytest, sys, locknut; before = set(sys.modules)\n"
        "import locknut.testing.plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['locknut.testing', 'locknut.testing.plugin']"
