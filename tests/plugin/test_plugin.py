"""The fixtures for users: what they promise, as a user's own tests would see it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.plugin.projects import passes, run

pytest_plugins = ["pytester"]

TESTS = {
    "fresh_and_empty": """
        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(locknut_locks, turn):
            assert locknut_locks.list() == []
            assert locknut_locks.lock("x").acquire().held
    """,
    "busy_at_once": """
        def test_it(locknut_locks, locknut_hold):
            with locknut_hold("x") as other:
                assert locknut_locks.lock("x").acquire(blocking=False) is None
                with pytest.raises(locknut.AcquireTimeout, match="somebody else"):
                    with locknut_locks.lock("x", timeout=0):
                        raise AssertionError
            with locknut_locks.lock("x") as lease:
                assert lease.fence > other.fence
    """,
    "a_wait_of_the_test_moves_the_clock": """
        def test_it(locknut_locks, locknut_hold, locknut_clock):
            before = locknut_clock.now()
            with locknut_hold("x"):
                assert locknut_locks.lock("x").acquire(timeout=3600) is None
            assert locknut_clock.now() == pytest.approx(before + 3600)
    """,
    "somebody_else_runs_out": """
        def test_it(locknut_locks, locknut_hold, locknut_clock):
            locknut_hold("x", ttl=10)
            assert locknut_locks.lock("x").acquire(timeout=9) is None
            assert locknut_locks.lock("x").acquire(timeout=2) is not None
    """,
    "somebody_else_releases_while_a_thread_waits": """
        def test_it(locknut_locks, locknut_hold):
            other = locknut_hold("x")
            waiting, got = threading.Event(), []
            locknut_locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
            thread = threading.Thread(target=lambda: got.append(locknut_locks.lock("x").acquire()))
            thread.start()
            assert waiting.wait(10)
            other.release()
            other.release()
            thread.join(10)
            assert got[0].fence
    """,
    "a_waiting_thread_times_out_when_the_clock_says_so": """
        def test_it(locknut_locks, locknut_hold, locknut_clock):
            locknut_hold("x")
            waiting, got = threading.Event(), []
            locknut_locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
            lock = locknut_locks.lock("x", timeout=60)
            thread = threading.Thread(target=lambda: got.append(lock.acquire()))
            thread.start()
            assert waiting.wait(10)
            locknut_clock.advance(59)
            assert not got
            locknut_clock.advance(2)
            thread.join(10)
            assert got == [None]
    """,
    "what_is_held_already": """
        def test_it(locknut_locks, locknut_hold):
            with locknut_locks.lock("x"):
                with pytest.raises(pytest.fail.Exception, match="is held by"):
                    locknut_hold("x")
    """,
    "expiry": """
        def test_it(locknut_locks, locknut_clock):
            told = []
            lease = locknut_locks.lock("x", ttl=30, auto_renew=False, on_lost=told.append).acquire()
            locknut_clock.advance(29)
            assert lease.held and 0 < lease.remaining < 1 and not told
            locknut_clock.advance(1)
            assert lease.state is locknut.State.LOST
            assert told == [lease]
            assert locknut_locks.lock("x").acquire(blocking=False) is not None
    """,
    "renewal": """
        def test_it(locknut_locks, locknut_clock):
            with locknut_locks.lock("x", ttl=30) as lease:
                for _ in range(20):
                    locknut_clock.advance(25)
                    lease.check()
                    assert 19 < lease.remaining <= 30
    """,
    "max_hold": """
        def test_it(locknut_locks, locknut_clock):
            lease = locknut_locks.lock("x", ttl=30, max_hold=100).acquire()
            locknut_clock.advance(99)
            lease.check()
            locknut_clock.advance(2)
            with pytest.raises(locknut.LeaseLost, match="max_hold"):
                lease.check()
    """,
    "lose": """
        def test_it(locknut_locks, locknut_lose):
            told = []
            with pytest.raises(locknut.LeaseLost):
                with locknut_locks.lock("x", on_lost=told.append) as lease:
                    locknut_lose(lease)
                    assert told == [lease]
                    assert not lease.held
                    assert locknut_locks.lock("x").acquire(blocking=False) is not None
    """,
    "unreachable": """
        def test_it(locknut_locks, locknut_fail_backend, locknut_clock):
            with locknut_fail_backend():
                with pytest.raises(locknut.BackendUnavailable):
                    locknut_locks.lock("x").acquire()
            assert locknut_locks.lock("x").acquire(blocking=False) is not None
    """,
    "unreachable_while_held": """
        def test_it(locknut_locks, locknut_fail_backend, locknut_clock):
            lease = locknut_locks.lock("x", ttl=30).acquire()
            with locknut_fail_backend():
                locknut_clock.advance(15)
                assert lease.state is locknut.State.AT_RISK
                locknut_clock.advance(20)
                assert lease.state is locknut.State.LOST
    """,
    "unreachable_for_a_while": """
        def test_it(locknut_locks, locknut_fail_backend, locknut_clock):
            lease = locknut_locks.lock("x", ttl=30).acquire()
            with locknut_fail_backend():
                locknut_clock.advance(15)
            locknut_clock.advance(5)
            assert lease.state is locknut.State.HELD
            lease.release()
    """,
    "assert_held": """
        def test_it(locknut_locks, locknut_assert_held):
            with locknut_locks.lock("x"):
                locknut_assert_held("x")
                with pytest.raises(pytest.fail.Exception, match="nobody holds 'y'.*'x'"):
                    locknut_assert_held("y")
            with pytest.raises(pytest.fail.Exception, match="none"):
                locknut_assert_held("x")
    """,
    "code_that_uses_the_default": """
        def test_it(locknut_locks, locknut_hold):
            with locknut_hold("x"):
                assert locknut.lock("x").acquire(blocking=False) is None
            with locknut.lock("x"):
                assert locknut_locks.lock("x").locked()
    """,
    "waiters_in_line": """
        def test_it(locknut_locks, locknut_hold, locknut_clock):
            other = locknut_hold("x")
            seen = threading.Semaphore(0)
            note = lambda event: seen.release() if event.kind == "waiting" else None
            locknut_locks.on_event(note)
            order = []
            def work(n):
                with locknut_locks.lock("x") as lease:
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
        def test_it(locknut_locks, locknut_hold):
            with locknut_hold("x", mode=locknut.Mode.SHARED):
                assert locknut_locks.rwlock("x").read().acquire(blocking=False) is not None
            with locknut_hold("s", mode=locknut.Mode.PERMIT, permits=2):
                semaphore = locknut_locks.semaphore("s", 2)
                assert semaphore.acquire(blocking=False) is not None
                assert semaphore.acquire(blocking=False) is None
    """,
    "aio_busy": """
        def test_it(locknut_aio_locks, locknut_hold, locknut_clock):
            async def main():
                with locknut_hold("x"):
                    with pytest.raises(locknut.AcquireTimeout):
                        async with locknut_aio_locks.lock("x", timeout=5):
                            raise AssertionError
                async with locknut_aio_locks.lock("x"):
                    pass
            asyncio.run(main())
    """,
    "aio_lose": """
        def test_it(locknut_aio_locks, locknut_lose):
            async def main():
                with pytest.raises(locknut.LeaseLost):
                    async with locknut_aio_locks.lock("x") as lease:
                        locknut_lose(lease)
                        await asyncio.sleep(10)
                        raise AssertionError
            asyncio.run(main())
    """,
    "aio_clock": """
        def test_it(locknut_aio_locks, locknut_hold, locknut_clock):
            async def main():
                locknut_hold("x")
                task = asyncio.create_task(locknut_aio_locks.lock("x").acquire(timeout=60))
                await asyncio.sleep(0)
                locknut_clock.advance(59)
                await locknut_clock.settled()
                assert not task.done()
                locknut_clock.advance(2)
                await locknut_clock.settled()
                assert task.done() and task.result() is None
            asyncio.run(main())
    """,
    "aio_clock_on_a_busy_machine": """
        def test_it(locknut_aio_locks, locknut_hold, locknut_clock):
            async def main():
                locknut_hold("x")
                task = asyncio.create_task(locknut_aio_locks.lock("x").acquire(timeout=60))
                await asyncio.sleep(0)
                time.sleep(0.1)  # longer than others get to act
                await asyncio.sleep(0)
                time.sleep(0.1)
                locknut_clock.advance(59)
                await locknut_clock.settled()
                assert not task.done()
                locknut_clock.advance(2)
                await locknut_clock.settled()
                assert task.done() and task.result() is None
            asyncio.run(main())
    """,
    "aio_expiry": """
        def test_it(locknut_aio_locks, locknut_clock):
            async def main():
                told = []
                lock = locknut_aio_locks.lock("x", ttl=30, auto_renew=False, on_lost=told.append)
                lease = await lock.acquire()
                locknut_clock.advance(31)
                await locknut_clock.settled()
                assert told == [lease] and not lease.held
                renewed = await locknut_aio_locks.lock("y", ttl=30).acquire()
                locknut_clock.advance(300)
                await locknut_clock.settled()
                assert renewed.held
            asyncio.run(main())
    """,
    "aio_and_blocking_share_the_engine": """
        def test_it(locknut_aio_locks, locknut_locks):
            async def main():
                async with locknut_aio_locks.lock("x"):
                    assert locknut_locks.lock("x").acquire(blocking=False) is None
            asyncio.run(main())
    """,
    "the_clock_does_not_run_backwards": """
        def test_it(locknut_clock):
            with pytest.raises(ValueError):
                locknut_clock.advance(-1)
    """,
}
HEAD = "import asyncio, threading, time\nimport pytest, locknut\n"


def test_what_users_write(pytester: pytest.Pytester) -> None:
    files = {name: HEAD + textwrap.dedent(text) for name, text in TESTS.items()}
    pytester.makepyfile(**{f"test_{name}": text for name, text in files.items()})
    passes(pytester, len(TESTS) + 1)  # one is parametrised


@pytest.mark.slow
def test_the_examples_of_the_documentation(pytester: pytest.Pytester) -> None:
    """A block that begins with `# name.py` is that file."""
    page = Path(__file__).parents[2].joinpath("docs", "testing.md").read_text()
    blocks = re.findall(r"```python fragment\n(.*?)```", page, re.DOTALL)
    named = {found[1]: block for block in blocks if (found := re.match(r"# (\w+)\.py\n", block))}
    others = [block for block in blocks if "def test_" in block and block not in named.values()]
    pytester.makepyfile(**named, **{f"test_{n}": block for n, block in enumerate(others)})
    passes(pytester, sum(block.count("def test_") for block in blocks))


def test_failing_is_possible(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(locknut_assert_held):\n    locknut_assert_held('x')\n")
    run(pytester).assert_outcomes(failed=1)


def test_the_fixtures_are_listed_with_their_sentence(pytester: pytest.Pytester) -> None:
    lines = run(pytester, "--fixtures").stdout
    lines.fnmatch_lines_random(
        [f"locknut_{name}*" for name in ("clock", "locks", "aio_locks", "hold", "lose")]
    )


def test_importing_it_is_cheap() -> None:
    code = (
        "import pytest, sys, locknut; before = set(sys.modules)\n"
        "import locknut.testing.plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['locknut.testing', 'locknut.testing.plugin']"


def test_every_export_is_found_whatever_was_imported_before() -> None:
    code = (
        "import inspect, pkgutil, locknut.testing\n"
        "names = locknut.testing.__all__\n"
        "for name in ('fakes', 'fake_clock', 'fake_engines', 'proxy', 'conformance'):\n"
        "    __import__(f'locknut.testing.{name}')\n"
        "assert not any(inspect.ismodule(getattr(locknut.testing, name)) for name in names)\n"
        "parts = {each.name for each in pkgutil.iter_modules(locknut.testing.__path__)}\n"
        "assert not parts & set(names), parts & set(names)\n"
        "assert dir(locknut.testing) == sorted(names)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
