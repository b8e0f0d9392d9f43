"""A worker that is killed as a whole, in every pool: its lock is freed, its message comes again."""

from __future__ import annotations

import os
import signal

import pytest

from tests.contrib.celery.conftest import Shop
from tests.contrib.programs import HANGS, until

pytestmark = [pytest.mark.faults, pytest.mark.slow]

POOLS = {
    "prefork": ("--pool=prefork", "--concurrency=2"),
    "gevent": ("--pool=gevent", "--concurrency=10"),
    "threads": ("--pool=threads", "--concurrency=4"),
}
SWEEPER = ("-n", "sweeper@%h", "--pool=prefork", "--concurrency=1", "-Q", "nothing")
"""With gevent, a worker that has nothing to do does not look for what was left behind."""
each_pool = pytest.mark.parametrize("pool", POOLS)


@each_pool
def test_one_at_a_time(shop: Shop, pool: str) -> None:
    """Of several greenlets or threads, too; each is a caller of its own."""
    gate = f"crowd-{pool}"
    with shop.worker(*POOLS[pool]):
        crowd = [shop.send("retrying", gate, number) for number in range(4)]
        shop.begun(gate)
        until(lambda: sum(each.state == "RETRY" for each in crowd) == 3, "three come back")
        shop.let_through(gate)
        assert [shop.get(each) for each in crowd] == [0, 1, 2, 3]
    assert [line[0] for line in shop.said() if line[1] == gate] == ["begun", "ended"] * 4


@each_pool
def test_the_lock_is_renewed_while_the_task_runs_and_freed_when_the_worker_is_killed(
    shop: Shop, pool: str
) -> None:
    gate = f"parent-{pool}"
    lock = shop.locks.lock(gate)
    with shop.worker(*POOLS[pool]) as parent:
        shop.send("retrying", gate)
        shop.begun(gate)
        assert lock.acquire(timeout=3) is None  # three times as long as its ttl
        os.kill(parent.pid, signal.SIGKILL)
        freed = lock.acquire(timeout=HANGS)
        assert freed is not None
        freed.release()


@each_pool
def test_a_message_that_was_not_acknowledged_comes_again(shop: Shop, pool: str) -> None:
    """The broker waits for its visibility timeout, and the lock may still be there then."""
    gate = f"redelivered-{pool}"
    with shop.worker(*POOLS[pool]) as first:
        sent = shop.send("skipping", gate)
        shop.begun(gate)
        with shop.worker(*POOLS[pool], "-n", "second@%h"), shop.worker(*SWEEPER, VISIBILITY="2"):
            os.kill(first.pid, signal.SIGKILL)
            shop.begun(gate, times=2)
            shop.let_through(gate)
            assert shop.get(sent) == "done"


def test_a_message_that_comes_again_while_it_runs_is_not_run_beside_itself(shop: Shop) -> None:
    """By a visibility timeout that is shorter than the task."""
    with shop.worker(*POOLS["prefork"], VISIBILITY="1"):
        shop.send("skipping", "alive")
        shop.begun("alive")
        until(lambda: shop.locks.info("alive").waiters, "the second one waits")
        assert len(shop.said("begun", "alive")) == 1
