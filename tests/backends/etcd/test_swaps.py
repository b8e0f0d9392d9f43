"""Keys that are removed, taken over late, or downgraded, on the reference of what etcd does."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.backends.etcd import places
from locknut.backends.etcd.backend import EtcdBackend
from locknut.backends.etcd.leased_link import TRIES
from locknut.core.values import Broken, Busy, Granted, Mode, Renewal
from locknut.drivers.etcd.requests import Delete, Put, created
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.etcd.conftest import claim
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine


@pytest.fixture
def cluster() -> LocalCluster:
    return LocalCluster()


def backend(cluster: LocalCluster) -> EtcdBackend:
    return LocalEngine(cluster).blocking(ThreadRuntime())


def test_a_waiter_whose_key_was_removed_stands_at_the_end_again(cluster: LocalCluster) -> None:
    """It was told that the one before it has gone, and yet it holds nothing."""
    port = backend(cluster)
    first, second, third = (claim() for _ in range(3))
    for each in (first, second, third):
        run(port.attempt(each, 0.0))
    state = port.shared.states[second.id]
    cluster.store.transact([], [Delete(state.key)], [])
    run(port.release(first))
    state.ring()
    answer = run(port.attempt(second, 0.0))
    assert isinstance(answer, Busy)
    granted = run(port.attempt(third, 0.0))
    assert isinstance(granted, Granted)
    assert state.created > granted.raw


def test_an_attempt_that_was_given_up_is_never_done(cluster: LocalCluster) -> None:
    """Its release did not know whether it had arrived; what bars it goes away by itself."""
    port, late, next_one = backend(cluster), claim(), claim()
    run(port.attempt(warm := claim("warm"), 0.0))
    assert not run(port.release(late, outcome_unknown=True))
    for waits in (True, False):
        answer = run(port.attempt(late._replace(waits=waits), 0.0))
        assert isinstance(answer, Busy)
        assert not answer.queued
    assert isinstance(run(port.attempt(next_one, 0.0)), Granted)
    for each in (warm, next_one):
        assert run(port.release(each))
    now = cluster.now()
    cluster.now = lambda: now + 200
    cluster.look()
    assert not cluster.store.keys


@pytest.mark.parametrize("doubts", [1, 30])
def test_it_is_not_done_however_late_it_comes(cluster: LocalCluster, doubts: int) -> None:
    """A member was stopped with it for longer than what bars it stays, and our lease lives on."""
    port, late, held = backend(cluster), claim(), claim("held")
    began, passed = cluster.now(), 0.0
    port.now = cluster.now = lambda: began + passed
    assert isinstance(run(port.attempt(held, 0.0)), Granted)
    state = port.shared.state_of(late)
    stuck = [created(state.key, 0), *places.conditions(state)]
    put = Put(state.key, port.shown(late), state.lease)
    assert not run(port.release(late, outcome_unknown=True))
    for left in range(200, 0, -1):
        passed += 2.0
        assert list(run(port.renew([held]))) == [Renewal.HELD]
        if left % (200 // doubts) == 0:
            run(port.release(claim("other"), outcome_unknown=True))
    assert not cluster.store.transact(stuck, [put], []).succeeded
    assert isinstance(run(port.attempt(next_one := claim(), 0.0)), Granted)
    assert run(port.release_all([held, next_one])) == [True, True]


def test_a_session_key_that_was_put_unseen_keeps_nobody_out(cluster: LocalCluster) -> None:
    """The answer to that was lost: whoever is refused for it reads what the key says now."""
    port, held = backend(cluster), claim("held")
    assert isinstance(run(port.attempt(held, 0.0)), Granted)

    def put() -> None:
        lease, key, _ = port.shared.session
        cluster.store.transact([], [Put(key, b"", lease)], [])

    for waits in (True, False):
        put()
        mine = claim(waits=waits)
        assert isinstance(run(port.attempt(mine, 0.0)), Granted)
        assert run(port.release(mine))
    put()
    several = [claim("a"), claim("b")]
    answer = run(port.attempt_all(several))
    assert isinstance(answer, list)
    assert run(port.release_all(several)) == [True, True]
    assert run(port.detach(held, 30.0))
    put()
    assert isinstance(run(port.attach(held, taken := claim("held"))), Granted)
    assert run(port.release(taken))


def test_an_attach_that_was_given_up_is_never_done(cluster: LocalCluster) -> None:
    port = backend(cluster)
    held, late, after = (claim() for _ in range(3))
    granted = run(port.attempt(held, 0.0))
    assert isinstance(granted, Granted)
    assert run(port.detach(held, 30.0))
    run(port.undo_attach(late, held._replace(ttl=30.0)))
    assert run(port.attach(held, late)) is None, "it arrives when somebody else may attach"
    attached = run(port.attach(held, after))
    assert attached is not None
    assert attached.raw == granted.raw


def test_an_attach_that_was_done_is_put_back(cluster: LocalCluster) -> None:
    port, other = backend(cluster), backend(cluster)
    held, given_up, after = (claim() for _ in range(3))
    run(port.attempt(held, 0.0))
    assert run(port.detach(held, 30.0))
    assert run(other.attach(held, given_up)) is not None
    run(other.undo_attach(given_up, held._replace(ttl=30.0)))
    assert run(other.renew([given_up])) == [Renewal.LOST]
    assert run(port.attach(held, after)) is not None


def test_a_detach_in_doubt_is_given_back_even_after_our_lease_has_ended(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was given the text, and the detached key has a lease of its own: it stayed for all of
    the time that was asked for it.
    """
    port, other, held = backend(cluster), backend(cluster), claim()
    run(port.attempt(held, 0.0))
    real = port.transact

    async def done(*transaction: Any) -> Any:
        await real(*transaction)
        raise BackendUnavailable("the answer is lost")

    async def unreachable(*_: Any) -> Any:
        raise BackendUnavailable("no way to it")

    with monkeypatch.context() as patched:
        patched.setattr(port, "transact", done)
        patched.setattr(port.link, "revoke", unreachable)
        with pytest.raises(BackendUnavailable):
            run(port.detach(held, 3600.0))
    cluster.store.revoke(port.shared.id)
    run(port.release(held, outcome_unknown=True))
    assert isinstance(run(other.attempt(claim(waits=False), 0.0)), Granted)


@pytest.mark.parametrize("times", [1, 2, 9])
def test_a_hold_that_changes_while_it_is_released_is_released(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """A detach that was stuck arrives between the look at its key and the deletion; or somebody
    attaches the hold and gives it back again. The release said that nobody had it, and it stayed.
    """
    port, other, held = backend(cluster), backend(cluster), claim()
    run(port.attempt(held, 0.0))
    key = port.shared.states[held.id].key
    real, left = other.transact, iter(range(times))

    async def late(*transaction: Any) -> Any:
        reply = await real(*transaction)
        if next(left, None) is not None:
            lease = cluster.store.grant(3600, 0)[0]
            detached = port.shown(held, id=held.id, detached=True)
            cluster.store.transact([], [Put(key, detached, lease)], [])
        return reply

    monkeypatch.setattr(other, "transact", late)
    if times < TRIES:
        assert run(other.release(held, outcome_unknown=True))
        assert isinstance(run(port.attempt(claim(waits=False), 0.0)), Granted)
    else:
        with pytest.raises(BackendUnavailable, match="again and again"):
            run(other.release(held))


def test_a_detached_hold_does_not_go_with_the_lease_of_its_locks(cluster: LocalCluster) -> None:
    port, other = backend(cluster), backend(cluster)
    held, late = claim(), claim()
    run(port.attempt(held, 0.0))
    assert run(port.detach(held, 30.0))
    run(port.close())
    assert isinstance(run(other.attempt(claim(waits=False), 0.0)), Busy)
    assert run(other.attach(held, late)) is not None
    assert len(cluster.store.leases) == 1, "its own lease is not needed any more"


def test_a_hold_whose_key_was_removed_is_neither_downgraded_nor_detached(
    cluster: LocalCluster,
) -> None:
    """The put would make a key, and with it a hold, that nobody was granted."""
    port, held = backend(cluster), claim()
    run(port.attempt(held, 0.0))
    cluster.store.transact([], [Delete(port.shared.states[held.id].key)], [])
    assert not run(port.downgrade(held))
    assert not run(port.detach(held, 30.0))
    assert isinstance(run(backend(cluster).attempt(claim(waits=False), 0.0)), Granted)


def test_a_key_that_was_removed_and_put_back_is_not_the_hold(cluster: LocalCluster) -> None:
    """Somebody may have held the lock in between."""
    port, held = backend(cluster), claim()
    run(port.attempt(held, 0.0))
    state = port.shared.states[held.id]
    cluster.store.transact([], [Delete(state.key)], [])
    cluster.store.transact([], [Put(state.key, port.shown(held), state.lease)], [])
    assert run(port.renew([held])) == [Renewal.LOST]


def test_a_reader_that_waits_is_rung_by_a_downgrade(cluster: LocalCluster) -> None:
    port, runtime = backend(cluster), ThreadRuntime()
    writer, reader = claim(), claim(mode=Mode.SHARED)
    run(port.attempt(writer, 0.0))
    assert isinstance(run(port.attempt(reader, 0.0)), Busy)
    with port.watch(reader, runtime.signal) as signal:
        assert isinstance(run(port.attempt(reader, 0.0)), Busy)
        assert run(port.downgrade(writer))
        assert run(signal.wait(runtime.now()))
        assert isinstance(run(port.attempt(reader, 0.0)), Granted)


def test_the_holder_of_another_client_learns_who_broke_its_lock(cluster: LocalCluster) -> None:
    port, other, held = backend(cluster), backend(cluster), claim()
    run(port.attempt(held, 0.0))
    assert run(other.break_hold(held.key, None, "by ann")) is not None
    assert run(port.renew([held])) == [Broken("by ann")]


def test_more_holds_than_one_transaction_takes(cluster: LocalCluster) -> None:
    port = backend(cluster)
    claims = [claim(f"x{n}") for n in range(250)]
    for each in claims:
        run(port.attempt(each, 0.0))
    assert run(port.renew(claims)) == [Renewal.HELD] * 250
    assert run(port.release_all(claims, outcome_unknown=True)) == [True] * 250


def test_a_lease_that_is_gone_is_told_to_all_its_holds(cluster: LocalCluster) -> None:
    port, held = backend(cluster), [claim(f"x{n}") for n in range(3)]
    told: list[object] = []
    port.listen(lambda claim_id, what: told.append((claim_id, what)))
    for each in held:
        run(port.attempt(each, 0.0))
    cluster.store.revoke(port.shared.id)
    assert told == [(None, Renewal.LOST)]
    assert run(port.renew(held)) == [Renewal.UNKNOWN] * 3, "that was no break of each"
    assert isinstance(run(port.attempt(held[0], 0.0)), Granted)
