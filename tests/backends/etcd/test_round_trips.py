"""What is asked of the cluster, counted on the reference: one transaction where nobody is there."""

from __future__ import annotations

from itertools import pairwise

import pytest

from locknut.core.values import Busy, Claim, Granted, Mode
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.etcd.conftest import claim
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine


@pytest.fixture
def cluster() -> LocalCluster:
    return LocalCluster()


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("mode", list(Mode))
def test_a_free_lock_takes_one_question_and_so_does_its_release(
    cluster: LocalCluster, mode: Mode, waits: bool
) -> None:
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    warm = claim("warm")
    run(port.attempt(warm, 0.0))
    run(port.release(warm))
    wanted = claim(mode=mode, waits=waits)
    before = cluster.asked
    assert isinstance(run(port.attempt(wanted, 0.0)), Granted)
    assert cluster.asked == before + 1
    assert run(port.release(wanted))
    assert cluster.asked == before + 2


def test_where_nobody_was_somebody_may_be(cluster: LocalCluster) -> None:
    """Whoever counts on that is told by one more question, and does not count on it again."""
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    other = LocalEngine(cluster).blocking(ThreadRuntime())
    warm = claim()
    run(port.attempt(warm, 0.0))
    assert run(port.release(warm))
    for questions in (2, 1):
        held, waiter = claim(), claim()
        assert isinstance(run(other.attempt(held, 0.0)), Granted)
        before = cluster.asked
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
        assert cluster.asked == before + questions
        assert run(other.release(held))
        port.shared.states[waiter.id].ring()
        assert isinstance(run(port.attempt(waiter, 0.0)), Granted)
        assert run(port.release(waiter))


def test_so_many_quiet_lines_are_remembered(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.backends.etcd.shared_lease.MOST", 3)
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    for n in range(10):
        wanted = claim(f"x{n}")
        assert isinstance(run(port.attempt(wanted, 0.0)), Granted)
        assert len(port.shared.quiet) <= 3


def test_several_take_one_question(cluster: LocalCluster) -> None:
    """Up to 33: a transaction has room for 128 compares."""
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    run(port.attempt(claim("warm"), 0.0))
    wanted = [claim(f"x{n}") for n in range(33)]
    before = cluster.asked
    assert isinstance(run(port.attempt_all(wanted)), list)
    assert run(port.release_all(wanted)) == [True] * 33
    assert cluster.asked == before + 2
    assert run(port.attempt_all([*wanted, claim("one more")])) is None, "one by one"


def test_who_does_not_wait_is_refused_by_one_and_leaves_nothing(cluster: LocalCluster) -> None:
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    run(port.attempt(claim(), 0.0))
    before, keys = cluster.asked, set(cluster.store.keys)
    answer = run(port.attempt(claim(waits=False), 0.0))
    assert isinstance(answer, Busy)
    assert not answer.queued
    assert cluster.asked == before + 1
    assert set(cluster.store.keys) == keys
    assert len(port.shared.states) == 1, "nor is anything remembered"


def test_a_long_line_costs_one_question_each(cluster: LocalCluster) -> None:
    """Whoever waits is told by a watch, reads the one before it, and not the line."""
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    line = [claim() for _ in range(40)]
    for each in line:
        run(port.attempt(each, 0.0))
    for first, second in pairwise(line):
        assert run(port.release(first))
        before = cluster.asked
        state = port.shared.states[second.id]
        state.ring()
        assert isinstance(run(port.attempt(second, 0.0)), Granted)
        assert cluster.asked == before + 1


def test_waiting_claims_share_one_keep_alive(cluster: LocalCluster) -> None:
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    claims = [claim(fair=True) for _ in range(50)]
    watches = []
    for each in claims:
        run(port.attempt(each, 0.0))
        watch = port.watch(each, ThreadRuntime().signal)
        watch.__enter__()
        watches.append(watch)
        run(port.attempt(each, 0.0))
    now = cluster.now()
    port.now = cluster.now = lambda: now + 3.0  # a quarter of the lease has passed
    before = cluster.asked
    for each in claims[1:]:
        assert isinstance(run(port.attempt(each, 0.0)), Busy)
    assert cluster.asked == before + 1
    for watch in watches:
        watch.__exit__(None, None, None)


def test_a_semaphores_waiter_is_rung_by_whichever_holder_goes(cluster: LocalCluster) -> None:
    for leaves in range(3):
        port = LocalEngine(cluster).blocking(ThreadRuntime())
        holders = [_permit(leaves) for _ in range(3)]
        waiter = _permit(leaves)
        for each in holders:
            assert isinstance(run(port.attempt(each, 0.0)), Granted)
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
        runtime = ThreadRuntime()
        with port.watch(waiter, runtime.signal) as signal:
            assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
            run(port.release(holders[leaves]))
            assert run(signal.wait(runtime.now()))
            assert isinstance(run(port.attempt(waiter, 0.0)), Granted)


def _permit(round_: int) -> Claim:
    return claim(f"s{round_}", mode=Mode.PERMIT, permits=3)
