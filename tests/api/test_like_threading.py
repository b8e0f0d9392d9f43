"""What CPython's own tests expect of a `threading.RLock` and a Semaphore holds for ours.

The spirit of Lib/test/lock_tests.py (LockTests, RLockTests, SemaphoreTests), in our own words.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

import locknut
from tests.api.crowd import PATIENCE, Started, in_thread


def test_the_constructor_and_del(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    del lock
    gc.collect()
    assert not locks.lock("x").locked()


def test_repr(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    assert repr(lock) == "<locknut.Lock 'x' on memory: not held here>"
    lock.acquire()
    assert repr(lock) == "<locknut.Lock 'x' on memory: held here>"
    assert "not held here" in in_thread(repr, lock)
    lock.release()


def test_locked(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    assert not lock.locked()
    lock.acquire()
    assert lock.locked()
    assert in_thread(lock.locked)
    lock.release()
    assert not lock.locked()


def test_acquire_is_true_and_a_failure_is_false(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    assert lock.acquire()
    assert not in_thread(lock.acquire, False)
    lock.release()


def test_acquire_positionally_as_in_threading(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    assert lock.acquire(True, 1)
    assert lock.acquire(True, -1)
    assert in_thread(lock.acquire, True, 0.01) is None
    assert in_thread(lock.acquire, False) is None
    lock.release()
    lock.release()


def test_acquire_contended(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    lock.acquire()
    order: list[int] = []
    waiting = threading.Semaphore(0)
    locks.on_event(lambda event: waiting.release() if event.kind == "waiting" else None)

    def work(number: int) -> None:
        lock.acquire()
        order.append(number)
        lock.release()

    crowd = []
    for number in range(5):
        crowd.append(Started(work, number))
        assert waiting.acquire(timeout=PATIENCE)
    assert not order
    lock.release()
    for each in crowd:
        each.result()
    assert order == [0, 1, 2, 3, 4]


def test_with(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    with lock:
        assert in_thread(lock.acquire, False) is None
    with pytest.raises(TypeError), lock:
        raise TypeError
    assert in_thread(lock.acquire, False) is not None


def test_many_threads_leave_no_thread_behind(locks: locknut.Locks) -> None:
    lock = locks.lock("x", ttl=30)
    lock.acquire()
    lock.release()
    before = set(threading.enumerate())

    def work() -> None:
        for _ in range(20):
            with lock:
                pass

    crowd = [Started(work) for _ in range(15)]
    for each in crowd:
        each.result()
    after = {each for each in threading.enumerate() if each.name != "locknut-keeper"}
    assert after <= before


@pytest.mark.parametrize(
    "wrong", [{"blocking": False, "timeout": 1}, {"timeout": -100}, {"timeout": "x"}]
)
def test_wrong_timeouts_are_value_errors(locks: locknut.Locks, wrong: dict[str, object]) -> None:
    lock = locks.lock("x")
    with pytest.raises(ValueError, match="timeout"):
        lock.acquire(**wrong)  # type: ignore[arg-type]
    assert not lock.locked()


def test_huge_timeouts_are_no_overflow(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    for timeout in (threading.TIMEOUT_MAX, threading.TIMEOUT_MAX * 10, 1e300, float("inf")):
        assert lock.acquire(timeout=timeout)
    for _ in range(4):
        lock.release()
    lock.acquire()
    waiting = threading.Event()
    locks.on_event(lambda event: waiting.set() if event.kind == "waiting" else None)
    waiter = Started(lock.acquire, True, 1e300)
    assert waiting.wait(PATIENCE)
    lock.release()
    waiter.result()


def test_a_timeout_lasts_its_time(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    lock.acquire()

    def work() -> float:
        before = time.monotonic()
        assert lock.acquire(timeout=0.1) is None
        return time.monotonic() - before

    assert in_thread(work) >= 0.1
    lock.release()


def test_reacquire(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    for _ in range(3):
        lock.acquire()
    for _ in range(2):
        lock.release()
        assert in_thread(lock.acquire, False) is None
    lock.release()
    assert in_thread(lock.acquire, False) is not None


def test_release_unacquired(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    with pytest.raises(RuntimeError):
        lock.release()
    for _ in range(2):
        lock.acquire()
    for _ in range(2):
        lock.release()
    with pytest.raises(RuntimeError):
        lock.release()


def test_another_thread_cannot_release(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    with lock:
        with pytest.raises(RuntimeError):
            in_thread(lock.release)
        assert lock.locked()


def test_weakrefs(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    lease = lock.acquire()
    of_lock, of_lease = weakref.ref(lock), weakref.ref(lease)
    del lock
    gc.collect()
    assert of_lock() is None
    assert of_lease() is lease
    assert lease is not None
    assert lease.held
    lease.release()


def test_a_lock_dropped_while_held_stays_held_by_its_thread(locks: locknut.Locks) -> None:
    locks.lock("x").acquire()
    gc.collect()
    assert in_thread(locks.lock("x").acquire, False) is None
    locks.lock("x").release()


def test_semaphore_like_threading(locks: locknut.Locks) -> None:
    semaphore = locks.semaphore("x", 7)
    with pytest.raises(ValueError, match="permits"):
        locks.semaphore("x", 0)
    for _ in range(7):
        assert semaphore.acquire(False)
    assert not semaphore.acquire(False)
    assert not in_thread(semaphore.acquire, True, 0.01)
    semaphore.release()
    assert semaphore.acquire(False)
    for _ in range(7):
        semaphore.release()
    with pytest.raises(RuntimeError):
        semaphore.release()


def test_multirelease_wakes_as_many(locks: locknut.Locks) -> None:
    semaphore = locks.semaphore("x", 3)
    held = [semaphore.acquire() for _ in range(3)]
    waiting, inside = threading.Semaphore(0), threading.Semaphore(0)
    done = threading.Event()
    locks.on_event(lambda event: waiting.release() if event.kind == "waiting" else None)

    def work() -> None:
        with semaphore:
            inside.release()
            done.wait(PATIENCE)

    crowd = [Started(work) for _ in range(6)]
    for _ in range(6):
        assert waiting.acquire(timeout=PATIENCE)
    for lease in held:
        assert lease is not None
        lease.release()
    for _ in range(3):
        assert inside.acquire(timeout=PATIENCE)
    assert not inside.acquire(blocking=False)
    done.set()
    for each in crowd:
        each.result()


def test_one_lock_object_in_many_threads(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    count = [0]

    def work() -> None:
        for _ in range(50):
            with lock, lock:
                before = count[0]
                time.sleep(0)
                count[0] = before + 1

    crowd = [Started(work) for _ in range(8)]
    for each in crowd:
        each.result()
    assert count == [400]


def test_a_condition_can_be_built_on_it(locks: locknut.Locks) -> None:
    condition = threading.Condition(locks.lock("x"))  # type: ignore[arg-type]  # as an RLock
    queue: list[int] = []

    def consume() -> None:
        with condition, condition:  # entered twice: waiting lets go of both
            while not queue:
                condition.wait(PATIENCE)

    consumer = threading.Thread(target=consume)
    consumer.start()
    deadline = threading.Event()
    while not condition._waiters:  # type: ignore[attr-defined]  # those who wait, as CPython keeps them
        deadline.wait(0.001)
    with condition:
        queue.append(1)
        condition.notify()
    consumer.join(PATIENCE)
    assert not consumer.is_alive()
    with pytest.raises(RuntimeError):
        condition.notify()
