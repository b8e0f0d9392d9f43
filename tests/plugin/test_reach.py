"""The fixtures reach code that was not written for them: module level, decorators, own URLs.

The URLs are those of a Redis that does not exist: a real lock would fail.
"""

from __future__ import annotations

import pytest

from tests.plugin.projects import passes, write

pytest_plugins = ["pytester"]

SHOP = """
    import asyncio
    import locknut
    from locknut import aio, connect
    from locknut.redlock import Redlock

    NOWHERE = "redis://localhost:1/0"
    locks = connect(NOWHERE, namespace="shop")
    STOCK = locks.lock("stock", ttl=30, timeout=5)
    PRICES = locks.rwlock("prices", timeout=5)
    BOTH = locks.all("stock", "prices", timeout=5)
    REPORT = locknut.lock("report", timeout=5)
    aio_locks = aio.connect(NOWHERE, namespace="shop")
    SHELF = aio_locks.lock("shelf", timeout=5)

    @locks.locked("order:{order}", timeout=5)
    def charge(order):
        return order

    @aio_locks.locked("order:{order}", on_busy="skip")
    async def ship(order):
        return order

    def connects(name, url=NOWHERE):
        with locknut.connect(url) as own, own.lock(name, timeout=5) as lease:
            return lease.fence

    async def connects_async(name):
        async with aio.connect(NOWHERE) as own, own.lock(name, timeout=5) as lease:
            return lease.fence

    def redlock(name):
        nodes = [f"redis://localhost:{port}" for port in (1, 2, 3)]
        with locknut.connect(Redlock(nodes)) as own, own.lock(name, timeout=5) as lease:
            return lease.fence

    def default(name):
        with locknut.lock(name, timeout=5) as lease:
            return lease.fence

    async def default_async(name):
        async with aio.lock(name, timeout=5) as lease:
            return lease.fence
"""
USES = """
    import asyncio, os, shop
    import locknut, pytest

    CALLS = {
        "decorator": lambda: shop.charge(1),
        "lock": lambda: shop.STOCK.__enter__() and shop.STOCK.release(),
        "rwlock": lambda: shop.PRICES.read().__enter__() and shop.PRICES.read().release(),
        "all": lambda: shop.BOTH.__enter__() and shop.BOTH.__exit__(None, None, None),
        "default_lock": lambda: shop.REPORT.__enter__() and shop.REPORT.release(),
        "connects": lambda: shop.connects("a"),
        "connects_async": lambda: asyncio.run(shop.connects_async("a")),
        "redlock": lambda: shop.redlock("a"),
        "default": lambda: shop.default("a"),
        "default_async": lambda: asyncio.run(shop.default_async("a")),
        "unusable_folder": lambda: shop.connects("a", "file:///proc/nowhere/locks"),
    }
    NAMES = {"decorator": "order:1", "lock": "stock", "rwlock": "prices", "all": "stock",
             "default_lock": "report"}

    @pytest.mark.parametrize("how", CALLS)
    def test_free_and_busy(how, locknut_hold):
        CALLS[how]()
        with locknut_hold(NAMES.get(how, "a")), pytest.raises(locknut.AcquireTimeout):
            CALLS[how]()
        CALLS[how]()

    def test_a_decorated_coroutine(locknut_hold):
        assert asyncio.run(shop.ship(1)) == 1

    def test_in_another_loop_and_busy(locknut_hold):
        with locknut_hold("order:1"):
            assert asyncio.run(shop.ship(1)) is None

    def test_a_lock_of_a_module_in_asyncio(locknut_assert_held, locknut_fakes):
        async def main():
            async with shop.SHELF as lease:
                locknut_assert_held("shelf")
                assert lease.remaining <= 30  # Redis has a ttl by default
        asyncio.run(main())

    def test_every_fixture_brings_the_fakes(locknut_fail_backend):
        with locknut_fail_backend(), pytest.raises(locknut.BackendUnavailable, match="by the test"):
            shop.charge(1)

    def test_a_loss_by_name(locknut_lose):
        with pytest.raises(locknut.LeaseLost), shop.STOCK as lease:
            locknut_lose("stock")
            lease.check()
        with pytest.raises(pytest.fail.Exception, match="does not hold 'stock'"):
            locknut_lose("stock")

    def test_renewals(locknut_clock, locknut_fail_backend):
        with shop.STOCK as lease:
            locknut_clock.advance(3600)
            lease.check()
        lease = shop.STOCK.acquire()
        with locknut_fail_backend():
            locknut_clock.advance(31)
        assert lease.state is locknut.State.LOST

    @pytest.mark.parametrize("turn", [1, 2])
    def test_what_a_test_leaves_is_gone_after_it(locknut_fakes, turn):
        assert not shop.STOCK.held
        kept = shop.STOCK.acquire(blocking=False)
        globals().setdefault("KEPT", []).append(kept)
        shop.locks.close() if turn == 1 else None

    def test_and_is_inert():
        assert [lease.state for lease in KEPT] == [locknut.State.RELEASED] * 2

    def test_it_looks_like_the_engine_that_it_replaces(locknut_fakes):
        assert shop.locks.backend == "redis"
        assert shop.locks.namespace == "shop"
        assert locknut.Capability.SHARED in shop.locks.capabilities
        with pytest.raises(locknut.Unsupported), locknut.connect(shop.NOWHERE, require=["session"]):
            pass
        with pytest.raises(locknut.ConfigurationError, match="reddis"):
            locknut.connect("reddis://localhost")

    def test_errors_read_as_in_production(locknut_hold):
        locknut_hold("stock")
        with pytest.raises(locknut.AcquireTimeout, match="locknut .*redis://localhost:1/0"):
            shop.STOCK.__enter__()

    def test_different_places_never_meet(locknut_fakes):
        with locknut.connect("redis://localhost:1/1") as one, one.lock("a"):
            with locknut.connect("redis://localhost:1/1", namespace="b") as other, other.lock("a"):
                assert shop.connects("a")
            with locknut.connect("redis://localhost:1/1") as same:
                assert same.lock("a").acquire(blocking=False) is None

    def test_the_default_shares_its_place_with_the_fixture(locknut_locks):
        with locknut_locks.lock("report"), pytest.raises(locknut.AcquireTimeout):
            shop.default("report")

    def test_somebody_else_is_there_before_the_code_connects(locknut_hold, locknut_clock):
        locknut_hold("a", ttl=10)
        locknut_clock.advance(6)
        with locknut.connect("redis://localhost:1/7", namespace="new") as own:
            assert own.lock("a").acquire(timeout=3) is None
            assert own.lock("a").acquire(timeout=2) is not None

    def test_somebody_else_whose_hold_is_over_does_not_come_back(locknut_hold, locknut_clock):
        locknut_hold("a", ttl=10)
        locknut_hold("b").release()
        locknut_clock.advance(11)
        with locknut.connect("redis://localhost:1/8", namespace="new") as own:
            assert own.lock("a").acquire(blocking=False) is not None
            assert own.lock("b").acquire(blocking=False) is not None

    @pytest.fixture
    def held():
        with shop.STOCK as lease:
            yield lease

    def test_fixtures_of_the_test_come_after_the_fakes(held, locknut_assert_held):
        locknut_assert_held("stock")

    @pytest.mark.locknut_real
    def test_afterwards_they_are_real_again():
        with pytest.raises(locknut.BackendUnavailable):
            shop.STOCK.acquire(timeout=0.1)
"""


def test_code_that_makes_its_own_locks(pytester: pytest.Pytester) -> None:
    write(pytester, shop=SHOP, test_shop=USES)
    passes(pytester, 28)


THREADS = """
    import threading, locknut, pytest

    locks = locknut.connect("redis://localhost:1/0")

    def test_a_thread_that_waits_when_the_test_ends(locknut_hold):
        locknut_hold("a")
        waiting = threading.Event()
        locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
        def work():
            try:
                locks.lock("a").acquire()
            except Exception as error:
                END.append(error)
        THREADS.append(threading.Thread(target=work, daemon=True))
        THREADS[0].start()
        assert waiting.wait(30)

    def test_is_told_so():
        THREADS[0].join(30)
        assert [str(error) for error in END] and "the test" in str(END[0])

    END, THREADS = [], []
"""


def test_a_thread_left_behind(pytester: pytest.Pytester) -> None:
    write(pytester, test_threads=THREADS)
    passes(pytester, 2)


REAL = """
    import locknut, pytest

    locks = locknut.connect("file:")

    @pytest.fixture(scope="module")
    def leader():
        with locks.lock("leader", ttl=30) as lease:
            yield lease

    def test_a_real_hold_lives_on_beside_the_fakes(leader, locknut_locks, locknut_clock):
        leader.check()
        with locks.lock("leader") as fake:
            assert fake is not leader
            locknut_clock.advance(3600)
            leader.check()
        assert leader.held

    def test_and_after_them(leader):
        assert leader.held
        assert locks.lock("leader").held
        assert locks.info("leader").locked
        assert locknut.connect("file:").lock("leader").acquire(blocking=False) is None
"""


@pytest.mark.file
def test_a_real_hold_of_a_wider_fixture(pytester: pytest.Pytester) -> None:
    write(pytester, test_real=REAL)
    pytester.makeini("[pytest]\nlocknut_real_locks = allow\n")
    passes(pytester, 2)


CONTEXT = """
    import unittest
    import locknut.aio
    import pytest
    from locknut.testing import fake_locks

    locks = locknut.connect("redis://localhost:1/0")

    class Case(unittest.TestCase):
        def setUp(self):
            self.fakes = self.enterContext(fake_locks())

        def test_without_fixtures(self):
            with self.fakes.hold("a"):
                self.assertIsNone(locks.lock("a").acquire(blocking=False))

    class Async(unittest.IsolatedAsyncioTestCase):
        def setUp(self):
            self.enterContext(fake_locks())

        async def test_asyncio(self):
            async with locknut.aio.connect("redis://localhost:1/0").lock("a") as lease:
                assert lease.held

    @pytest.mark.usefixtures("locknut_locks")
    class Marked(unittest.TestCase):
        def test_with_a_fixture(self):
            with locks.lock("a"):
                self.assertTrue(locks.info("a").locked)

    @pytest.fixture(scope="module")
    def app():
        with fake_locks():
            yield locks.lock("leader", ttl=30).acquire()

    def test_a_wider_fixture(app, locknut_clock, locknut_assert_held):
        locknut_clock.advance(3600)
        locknut_assert_held("leader")

    def test_keeps_its_fakes(app, locknut_clock, locknut_lose):
        assert app.held
        locknut_lose(app)
        assert not app.held
"""


def test_unittest_and_wider_fixtures(pytester: pytest.Pytester) -> None:
    write(pytester, test_context=CONTEXT)
    passes(pytester, 5)
