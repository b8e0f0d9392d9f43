"""Locked tasks in a prefork worker, whose children are killed in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from celery.exceptions import SoftTimeLimitExceeded

import locknut
from locknut.contrib.celery import is_skipped
from tests.contrib.celery.conftest import Shop
from tests.contrib.programs import HANGS, until

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module", autouse=True)
def worker(shop: Shop) -> Iterator[None]:
    """Two children: one is busy with the lock, and whoever waits must not take the other."""
    with shop.worker("--pool=prefork", "--concurrency=2"):
        yield


def test_busy_tasks_come_back_and_hold_no_worker_meanwhile(shop: Shop) -> None:
    first = shop.send("retrying", "a", 1)
    shop.begun("a")
    others = [shop.send("retrying", "a", number) for number in (2, 3)]
    until(lambda: all(each.state == "RETRY" for each in others), "they come back")
    shop.let_through("b")
    assert shop.get(shop.send("retrying", "b", 4)) == 4
    assert len(shop.said("begun", "a")) == 1
    shop.let_through("a")
    assert [shop.get(each) for each in (first, *others)] == [1, 2, 3]
    assert [line[0] for line in shop.said() if line[1] == "a"] == ["begun", "ended"] * 3


def test_a_task_that_is_skipped_says_so_in_its_result(shop: Shop) -> None:
    running = shop.send("skipping", "skip")
    process = shop.begun("skip")
    skipped = shop.get(shop.send("skipping", "skip"))
    assert is_skipped(skipped)
    assert skipped["lock"] == "skip"
    assert str(process) in skipped["held_by"]
    assert "skipped 'skip' on" in shop.log()
    shop.let_through("skip")
    assert shop.get(running) == "done"
    assert not is_skipped(shop.get(running))


def test_a_task_may_fail_that_finds_its_lock_busy(shop: Shop) -> None:
    with shop.locks.lock("fail"):
        for task in ("raising", "bounded"):
            with pytest.raises(locknut.AcquireTimeout, match="'fail' is held by") as caught:
                shop.get(shop.send(task, "fail"))
            assert str(os.getpid()) in str(caught.value)


def test_coming_back_does_not_use_up_the_retries_of_the_task(shop: Shop) -> None:
    """It has one for its own error; with `self.retry` for both it would have failed."""
    with shop.locks.lock("twice"):
        sent = shop.send("failing", "twice")
        until(lambda: sent.state == "RETRY", "it comes back")
    assert shop.get(sent) == 1
    assert len(shop.said("tried", "twice")) == 2


def test_a_task_that_retries_by_itself_holds_nothing_while_it_waits(shop: Shop) -> None:
    sent = shop.send("failing", "pause", HANGS)
    until(lambda: sent.state == "RETRY", "it waits")
    lease = shop.locks.lock("pause").acquire(timeout=HANGS / 2)
    assert lease is not None
    lease.release()
    assert len(shop.said("tried", "pause")) == 1


def test_all_arguments_together_name_the_lock_by_default(shop: Shop) -> None:
    running = shop.send("by_digest", "digest", {"x": 1, "y": 2})
    shop.begun("digest")
    assert is_skipped(shop.get(shop.send("by_digest", "digest", options={"y": 2, "x": 1})))
    shop.let_through("digest")
    assert shop.get(running).startswith("by_digest:")
    assert shop.get(shop.send("by_digest", "digest")) != shop.get(running)


def test_a_child_that_is_killed_frees_the_lock(shop: Shop) -> None:
    """The first message is acknowledged early, so it is not run again."""
    shop.send("retrying", "killed", 1)
    child = shop.begun("killed")
    other = shop.send("retrying", "killed", 2)
    until(lambda: other.state == "RETRY", "it comes back")
    os.kill(child, signal.SIGKILL)
    shop.begun("killed", times=2)
    shop.let_through("killed")
    assert shop.get(other) == 2


@pytest.mark.slow
def test_a_message_that_comes_again_is_not_skipped_for_its_own_dead_run(shop: Shop) -> None:
    """On Redis the lock of the killed child is still there when the broker delivers again."""
    sent = shop.send("skipping", "again")
    os.kill(shop.begun("again"), signal.SIGKILL)
    shop.begun("again", times=2)
    shop.let_through("again")
    assert shop.get(sent) == "done"


def test_a_lock_that_is_lost_fails_the_task_at_its_next_check(shop: Shop) -> None:
    sent = shop.send("checking", "check")
    shop.begun("check")
    assert shop.locks.force_release("check", reason="a test")
    with pytest.raises(locknut.LeaseLost):
        shop.get(sent)


def test_a_task_that_never_checks_does_not_succeed_without_its_lock(shop: Shop) -> None:
    sent = shop.send("retrying", "unaware")
    shop.begun("unaware")
    assert shop.locks.force_release("unaware", reason="a test")
    until(lambda: "lost 'unaware' on" in shop.log(), "the loss is in the log")
    shop.let_through("unaware")
    with pytest.raises(locknut.LeaseLost):
        shop.get(sent)


def test_a_soft_time_limit_frees_the_lock(shop: Shop) -> None:
    sent = shop.send("limited", "limit")
    with pytest.raises(SoftTimeLimitExceeded):
        shop.get(sent)
    assert not shop.locks.info("limit").locked
