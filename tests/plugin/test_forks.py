"""A test that forks while its locks are fakes: its children are told why they have none."""

from __future__ import annotations

import pytest

from tests.plugin.projects import passes, write

pytest_plugins = ["pytester"]

SHOP = """
    import asyncio, os, sys, traceback
    import locknut
    from locknut import aio

    NOWHERE = "redis://localhost:1/0"
    locks = locknut.connect(NOWHERE)
    aio_locks = aio.connect(NOWHERE)

    @locks.locked("order")
    def charge():
        pass

    def uses():
        with locks.lock("x"):
            pass

    def connects():
        with locknut.connect(NOWHERE).lock("x"):
            pass

    def default():
        with locknut.lock("x"):
            pass

    def looks():
        locks.info("x")

    def awaits():
        async def main():
            async with aio_locks.lock("x"):
                pass
        asyncio.run(main())

    def awaits_its_own():
        async def main():
            async with aio.connect(NOWHERE) as own, own.lock("x"):
                pass
        asyncio.run(main())

    def forked(work):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            said = "no error"
            try:
                work()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, said.encode())
            os._exit(0)
        os.close(writer)
        with open(reader) as told:
            said = told.read()
        os.waitpid(child, 0)
        return said
"""
SETTINGS = """
    import pytest, warnings

    @pytest.fixture(autouse=True)
    def _forks_beside_threads():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
"""
WAYS = ("uses", "connects", "default", "looks", "charge", "awaits", "awaits_its_own")


@pytest.mark.parametrize("setting", ["", "refuse", "replace"])
def test_a_child_is_told_to_use_real_locks(pytester: pytest.Pytester, setting: str) -> None:
    tests = f"""
        import pytest, shop

        @pytest.mark.parametrize("way", {WAYS})
        def test_it(way, locknut_fakes):
            with shop.locks.lock("x") as lease:
                said = shop.forked(getattr(shop, way))
                assert said.startswith("ConfigurationError: "), said
                assert "locknut_real" in said and "file://{{tmp_path}}" in said
                assert lease.held
            with shop.locks.lock("x"):
                pass
    """
    write(pytester, shop=SHOP, conftest=SETTINGS, test_shop=tests)
    passes(pytester, len(WAYS), "-o", f"locknut_real_locks={setting}")


def test_a_child_that_uses_no_lock_has_no_trouble(pytester: pytest.Pytester) -> None:
    tests = """
        import multiprocessing, sys, shop

        def work(numbers):
            numbers.put(sum(numbers.get() for _ in range(2)))

        def test_it(locknut_hold, locknut_clock):
            fork = multiprocessing.get_context("fork")
            numbers = fork.Queue()
            with shop.locks.lock("x", ttl=30) as lease, locknut_hold("y"):
                child = fork.Process(target=work, args=(numbers,))
                numbers.put(3)
                numbers.put(4)
                child.start()
                child.join(60)
                assert (child.exitcode, numbers.get(timeout=60)) == (0, 7)
                locknut_clock.advance(60)
                assert lease.held
    """
    write(pytester, shop=SHOP, conftest=SETTINGS, test_shop=tests)
    passes(pytester, 1)


def test_a_child_that_leaves_the_fakes_has_locks_of_its_own(pytester: pytest.Pytester) -> None:
    """What was held before the fakes began stays the parent's; no hold of it is given back."""
    tests = """
        import locknut, pytest, shop
        from locknut.testing import fake_locks

        @pytest.mark.locknut_real
        def test_it(tmp_path):
            locks = locknut.connect(f"file://{tmp_path}")
            lease = locks.lock("x").acquire()
            fakes = fake_locks()
            fakes.__enter__()
            faked = locks.lock("y").acquire()

            def leave():
                fakes.__exit__(None, None, None)
                assert not lease.held
                assert locks.lock("x").acquire(blocking=False) is None
                with locks.lock("z") as mine:
                    assert mine.held

            assert shop.forked(leave) == "no error"
            assert faked.held
            fakes.__exit__(None, None, None)
            lease.check()
            assert locks.info("x").locked
            lease.release()
    """
    write(pytester, shop=SHOP, conftest=SETTINGS, test_shop=tests)
    passes(pytester, 1)


def test_a_child_may_fake_locks_of_its_own(pytester: pytest.Pytester) -> None:
    tests = """
        import shop
        from locknut.testing import fake_locks

        def fakes_again():
            with fake_locks() as fakes, shop.locknut.connect(shop.NOWHERE).lock("x"):
                fakes.assert_held("x")

        def test_it(locknut_fakes):
            with locknut_fakes.hold("x"):
                assert shop.forked(fakes_again) == "no error"
                locknut_fakes.assert_held("x")
    """
    write(pytester, shop=SHOP, conftest=SETTINGS, test_shop=tests)
    passes(pytester, 1)


def test_the_way_that_the_message_names_works(pytester: pytest.Pytester) -> None:
    tests = """
        import locknut, multiprocessing, pytest

        def work(locks, busy):
            busy.put(locks.lock("x").acquire(blocking=False) is None)

        @pytest.mark.locknut_real
        def test_it(tmp_path):
            locks = locknut.connect(f"file://{tmp_path}")
            fork = multiprocessing.get_context("fork")
            busy = fork.Queue()
            with locks.lock("x"):
                child = fork.Process(target=work, args=(locks, busy))
                child.start()
                assert busy.get(timeout=60)
                child.join(60)
    """
    write(pytester, conftest=SETTINGS, test_shop=tests)
    passes(pytester, 1)
