"""The lock-order check: two orders of the same families are found, though nobody ever met."""

# ruff: noqa: PT012  # it is the end of the context that raises
from __future__ import annotations

import asyncio
import threading

import pytest

import locknut
from locknut import aio
from locknut.testing import LockOrderError, lock_order
from locknut.testing.order_of_locks import LockOrder


@pytest.fixture
def locks() -> locknut.Locks:
    return locknut.connect("memory:order")


def nest(locks: locknut.Locks, *names: str) -> None:
    if names:
        with locks.lock(names[0]):
            nest(locks, *names[1:])


def test_two_orders_of_two_families(locks: locknut.Locks) -> None:
    with pytest.raises(LockOrderError) as caught, lock_order() as order:
        nest(locks, "order:1", "stock:1")
        assert not order.circles
        nest(locks, "stock:2", "order:2")
        assert order.circles
    (circle,) = caught.value.circles
    assert {(step.held, step.taken) for step in circle} == {
        ("order:1", "stock:1"),
        ("stock:2", "order:2"),
    }
    text = str(caught.value)
    assert "'stock:2', then 'order:2'" in text
    assert f"{__file__}:" in text
    assert "in nest, thread MainThread" in text


def test_one_order_everywhere(locks: locknut.Locks) -> None:
    with lock_order() as order:
        for at in range(3):
            nest(locks, f"order:{at}", f"stock:{at}", "bill")
            nest(locks, f"order:{at}", "bill")
    assert not order.circles


def test_three_families_in_a_ring(locks: locknut.Locks) -> None:
    with pytest.raises(LockOrderError) as caught, lock_order():
        nest(locks, "a:1", "b:1")
        nest(locks, "b:2", "c:2")
        nest(locks, "c:3", "a:3")
    assert len(caught.value.circles[0]) == 3


def test_names_of_one_family_have_an_order_too(locks: locknut.Locks) -> None:
    with lock_order():
        nest(locks, "account:9", "account:10")
        nest(locks, "account:1", "account:2")
    with pytest.raises(LockOrderError), lock_order():
        nest(locks, "account:9", "account:10")
        nest(locks, "account:2", "account:1")


def test_what_never_waits_does_not_count(locks: locknut.Locks) -> None:
    with lock_order():
        nest(locks, "a", "b")
        with locks.lock("b"):
            lease = locks.lock("a").acquire(blocking=False)
            assert lease
            lease.release()
        with locks.lock("a"), locks.lock("b"), locks.lock("a"):
            pass  # entered again


def test_readers_do_not_wait_for_readers(locks: locknut.Locks) -> None:
    a, b = locks.rwlock("a"), locks.rwlock("b")
    with lock_order():
        with a.read(), b.read():
            pass
        with b.read(), a.read():
            pass
    with pytest.raises(LockOrderError), lock_order():
        with a.read(), b.read():
            pass
        with b.write(), a.read():
            pass


def test_permits_add_up_and_a_semaphore_is_not_the_lock_of_its_name(locks: locknut.Locks) -> None:
    slots = locks.semaphore("a", 3)
    with lock_order():
        with slots, slots, slots:
            pass
        with slots, locks.lock("b"):
            pass
        with locks.lock("b"), locks.lock("a"):
            pass
    with pytest.raises(LockOrderError), lock_order():
        with slots, locks.lock("b"):
            pass
        with locks.lock("b"), slots:
            pass


def test_several_at_once_have_one_order(locks: locknut.Locks) -> None:
    with lock_order(), locks.all("b", "a", "c"):
        pass
    with pytest.raises(LockOrderError), lock_order():
        with locks.all("b", "a"):
            pass
        nest(locks, "b", "a")


def test_a_wait_that_came_to_nothing_counts(locks: locknut.Locks) -> None:
    """In the line of this process, and in another's."""
    for other in (locks, locknut.connect("memory:order")):
        with pytest.raises(LockOrderError), lock_order():
            nest(locks, "a", "b")
            held, done = threading.Event(), threading.Event()

            def hold(other: locknut.Locks = other, held: threading.Event = held) -> None:
                with other.lock("a"):
                    held.set()
                    done.wait(20)  # noqa: B023  # the thread ends in this round

            thread = threading.Thread(target=hold)
            thread.start()
            assert held.wait(20)
            with locks.lock("b"):
                assert locks.lock("a").acquire(timeout=0.01) is None
            done.set()
            thread.join()


def test_different_places_are_different_locks(locks: locknut.Locks) -> None:
    other = locknut.connect("memory:order", namespace="other")
    with lock_order():
        nest(locks, "a", "b")
        with other.lock("b"), locks.lock("a"):
            pass


def test_tasks() -> None:
    async def main() -> None:
        locks = aio.connect("memory:order")
        async with locks.lock("a"), locks.lock("b"):
            pass
        async with locks.lock("b"), locks.lock("a"):
            pass
        await locks.close()

    with pytest.raises(LockOrderError, match="in main, task Task-"), lock_order():
        asyncio.run(main())


def test_an_error_of_the_body_is_not_replaced(locks: locknut.Locks) -> None:
    with pytest.raises(ZeroDivisionError), lock_order():
        nest(locks, "a", "b")
        nest(locks, "b", "a")
        _ = 1 / 0
    nest(locks, "b", "a")  # nobody notes it any more


def test_the_fixture(locks: locknut.Locks, locknut_lock_order: LockOrder) -> None:
    nest(locks, "a", "b")
    nest(locks, "b", "a")
    assert len(locknut_lock_order.circles) == 1
    locknut_lock_order.circles.clear()  # or this test would fail
