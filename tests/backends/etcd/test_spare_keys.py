"""A lock that comes and goes leaves one name behind, and nothing late meets the key of another.

etcd goes through every name that was ever under a prefix, until its history is compacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from locknut.backends.etcd import key_names
from locknut.backends.etcd.backend import EtcdBackend
from locknut.core.values import Broken, Busy, Claim, Granted, Mode
from locknut.drivers.etcd.requests import Compare, Operation, Reply
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.etcd.conftest import claim
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine

TIMES = 20


@pytest.fixture
def cluster() -> LocalCluster:
    return LocalCluster()


def backend(cluster: LocalCluster) -> EtcdBackend:
    return LocalEngine(cluster).blocking(ThreadRuntime())


def names(cluster: LocalCluster, name: str = "x") -> set[bytes]:
    """All that ever were in the line."""
    line = f"/{name}/".encode()
    return {each.key for each in cluster.store.since(1, b"\0", b"\0") or () if line in each.key}


class Late:
    """Answers of the cluster are lost, or what was sent arrives later."""

    def __init__(self, port: EtcdBackend, monkeypatch: pytest.MonkeyPatch):
        self._real = port.link.transact
        self.sent: list[tuple[Sequence[Any], ...]] = []
        self.lost = self.arrives = False
        monkeypatch.setattr(port.link, "transact", self._transact)

    async def _transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation] = (),
    ) -> Reply:
        if not self.lost:
            return await self._real(compares, then, otherwise)
        self.sent.append((compares, then, otherwise))
        if self.arrives:
            await self._real(compares, then, otherwise)
        raise BackendUnavailable("no answer")

    def arrive(self, cluster: LocalCluster) -> None:
        """All that was on its way."""
        for compares, then, otherwise in self.sent:
            cluster.store.transact(compares, then, otherwise)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("mode", list(Mode))
def test_a_lock_that_comes_and_goes_leaves_one_name(
    cluster: LocalCluster, mode: Mode, waits: bool
) -> None:
    port = backend(cluster)
    for _ in range(TIMES):
        each = claim(mode=mode, waits=waits)
        assert isinstance(run(port.attempt(each, 0.0)), Granted)
        assert run(port.release(each))
    assert len(names(cluster)) == 1


def test_several_at_once_leave_a_name_each(cluster: LocalCluster) -> None:
    port = backend(cluster)
    for _ in range(TIMES):
        several = [claim("x"), claim("y")]
        assert isinstance(run(port.attempt_all(several)), list)
        assert run(port.release_all(several)) == [True, True]
    assert len(names(cluster)) == len(names(cluster, "y")) == 1


def test_who_is_refused_or_gives_up_leaves_no_more_names(cluster: LocalCluster) -> None:
    port, other = backend(cluster), backend(cluster)
    for _ in range(TIMES):
        own, waiter, refused = claim(), claim(), claim(waits=False)
        assert isinstance(run(port.attempt(own, 0.0)), Granted)
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
        assert isinstance(run(port.attempt(refused, 0.0)), Busy)
        assert isinstance(run(port.attempt_all([claim(waits=False)])), Busy)
        assert not run(port.release(waiter))
        assert run(port.release(own))
        assert isinstance(run(other.attempt(held := claim(), 0.0)), Granted)
        assert isinstance(run(port.attempt(claim(waits=False), 0.0)), Busy)
        assert run(other.release(held))
    assert len(names(cluster)) == 3, "two that stood there at a time, and the other client's"


def test_two_that_stand_there_at_a_time_have_two_names(cluster: LocalCluster) -> None:
    port = backend(cluster)
    before = [claim() for _ in range(3)]
    for each in before:
        run(port.attempt(each, 0.0))
    assert run(port.release_all(before)) == [True, False, False]
    line = [claim() for _ in range(5)]
    answers = [run(port.attempt(each, 0.0)) for each in line]
    assert [isinstance(each, Granted) for each in answers] == [True] + [False] * 4
    assert len({port.shared.states[each.id].key for each in line}) == 5
    assert len(names(cluster)) == 5


def test_a_key_that_is_named_after_another_claim_says_whose_it_is(cluster: LocalCluster) -> None:
    port, other, first = backend(cluster), backend(cluster), claim()
    run(port.attempt(first, 0.0))
    assert run(port.release(first))
    held = claim()
    granted = run(port.attempt(held, 0.0))
    assert isinstance(granted, Granted)
    assert len(names(cluster)) == 1
    assert not run(other.release(first)), "it is over, whoever asks"
    assert run(other.break_hold(held.key, None, "by ann")) is not None
    assert list(run(port.renew([held]))) == [Broken("by ann")]


def test_a_client_that_has_forgotten_it_releases_it_by_its_id(cluster: LocalCluster) -> None:
    port, other, first, held = backend(cluster), backend(cluster), claim(), claim()
    run(port.attempt(first, 0.0))
    assert run(port.release(first))
    run(port.attempt(held, 0.0))
    assert run(other.release(held))
    assert isinstance(run(other.attempt(claim(waits=False), 0.0)), Granted)


@pytest.mark.parametrize("arrives", [True, False])
def test_the_name_of_an_attempt_in_doubt_is_nobodys(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """Its answer was lost, and then it was refused: the first sending is still under way."""
    port, doubted = backend(cluster), claim(waits=False)
    warm = claim()
    run(port.attempt(warm, 0.0))
    assert run(port.release(warm))
    way = Late(port, monkeypatch)
    way.lost, way.arrives = True, arrives
    with pytest.raises(BackendUnavailable):
        run(port.attempt(doubted, 0.0))
    way.lost = False
    if arrives:
        assert isinstance(run(port.attempt(doubted, 0.0)), Granted)
        assert len(names(cluster)) == 1, "the same key is found again"
        return
    other = backend(cluster)
    run(other.attempt(held := claim(), 0.0))
    assert isinstance(run(port.attempt(doubted, 0.0)), Busy)
    assert run(other.release(held))
    way.arrive(cluster)
    answer = run(port.attempt(claim(), 0.0))
    assert isinstance(answer, Busy), "the key of the one that came late is not the other's own"


@pytest.mark.parametrize("arrives", [True, False])
def test_an_attempt_in_doubt_where_nobody_was_is_one_claim(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """It counted on nobody being there: asked again, it may be there itself."""
    port, doubted, warm = backend(cluster), claim(), claim()
    run(port.attempt(warm, 0.0))
    assert run(port.release(warm))
    way = Late(port, monkeypatch)
    way.lost, way.arrives = True, arrives
    with pytest.raises(BackendUnavailable):
        run(port.attempt(doubted, 0.0))
    way.lost = False
    assert isinstance(run(port.attempt(doubted, 0.0)), Granted)
    assert len(names(cluster)) == 1
    assert run(port.release(doubted, outcome_unknown=True))
    way.arrive(cluster)
    assert isinstance(run(backend(cluster).attempt(claim(waits=False), 0.0)), Granted)


def test_an_attempt_in_doubt_is_not_done_after_its_hold_was_passed_on(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever attaches the hold releases it, and then the first sending arrives."""
    port, other, held, taken = backend(cluster), backend(cluster), claim(), claim()
    way = Late(port, monkeypatch)
    run(port.attempt(warm := claim("warm"), 0.0))
    assert run(port.release(warm))
    way.lost = True
    with pytest.raises(BackendUnavailable):
        run(port.attempt(held, 0.0))
    way.lost = False
    assert isinstance(run(port.attempt(held, 0.0)), Granted)
    assert run(port.detach(held, 30.0))
    assert isinstance(run(other.attach(held, taken)), Granted)
    assert run(other.release(taken))
    way.arrive(cluster)
    assert isinstance(run(other.attempt(claim(waits=False), 0.0)), Granted)


def test_a_late_release_of_several_leaves_the_next_alone(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = backend(cluster)
    several = [claim("x"), claim("y")]
    assert isinstance(run(port.attempt_all(several)), list)
    _late_release_is_harmless(port, cluster, monkeypatch, several)


def test_a_late_release_leaves_the_next_alone(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, one = backend(cluster), claim("x")
    assert isinstance(run(port.attempt(one, 0.0)), Granted)
    _late_release_is_harmless(port, cluster, monkeypatch, [one])


def _late_release_is_harmless(
    port: EtcdBackend,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
    held: Sequence[Claim],
) -> None:
    """The answer to its repetition was there first, and somebody holds the lock by then."""
    way = Late(port, monkeypatch)
    way.lost = True
    with pytest.raises(BackendUnavailable):
        run(port.release_all(held) if len(held) > 1 else port.release(held[0]))
    way.lost = False
    assert all(run(port.release_all(held)))
    assert isinstance(run(port.attempt(after := claim("x"), 0.0)), Granted)
    assert len(names(cluster)) == 1
    way.arrive(cluster)
    assert run(port.release(after)), "it is still there"


def test_a_late_release_of_one_that_never_stood_there_leaves_the_next_alone(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is another claim's by then: the delete asks whether the key is the one that was
    sent.
    """
    port, warm, gone = backend(cluster), claim(), claim()
    run(port.attempt(warm, 0.0))
    assert run(port.release(warm))
    state = port.shared.state_of(gone)
    way = Late(port, monkeypatch)
    way.lost = True
    with pytest.raises(BackendUnavailable):
        run(port.release(gone))
    way.lost = False
    port.shared.over(state, key_gone=True)
    assert isinstance(run(port.attempt(held := claim(), 0.0)), Granted)
    assert port.shared.states[held.id].key == state.key
    way.arrive(cluster)
    assert run(port.release(held))


def test_a_key_that_was_taken_over_is_named_by_another_client(cluster: LocalCluster) -> None:
    """What that one has sent for it, we do not know."""
    port, other, held, taken = backend(cluster), backend(cluster), claim(), claim()
    run(port.attempt(held, 0.0))
    assert run(port.detach(held, 30.0))
    assert isinstance(run(other.attach(held, taken)), Granted)
    key = other.shared.states[taken.id].key
    assert run(other.release(taken))
    run(other.attempt(after := claim(), 0.0))
    assert other.shared.states[after.id].key != key


def test_a_claim_that_was_interrupted_before_it_had_a_key_begins_anew(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, given_up, held = backend(cluster), claim(), claim()
    run(port.attempt(warm := claim("warm"), 0.0))

    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    for each in (given_up, held):
        with monkeypatch.context() as patched:
            patched.setattr(key_names, "own", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(port.attempt(each, 0.0))
    assert not run(port.release(given_up))
    assert isinstance(run(port.attempt(held, 0.0)), Granted)
    assert b"" not in cluster.store.keys
    assert run(port.release_all([held, warm])) == [True, True]


def test_names_go_with_the_lease(cluster: LocalCluster) -> None:
    port, before, after = backend(cluster), claim(), claim()
    run(port.attempt(before, 0.0))
    assert run(port.release(before))
    cluster.store.revoke(port.shared.id)
    assert isinstance(run(port.attempt(after, 0.0)), Granted)
    assert f"/{port.shared.id:x}-".encode() in port.shared.states[after.id].key


def test_so_many_lines_are_remembered(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.backends.etcd.spare_keys.MOST", 3)
    port = backend(cluster)
    for n in range(10):
        each = claim(f"x{n}")
        run(port.attempt(each, 0.0))
        assert run(port.release(each))
    for n in (9, 0):
        run(port.attempt(claim(f"x{n}"), 0.0))
    assert len(names(cluster, "x9")) == 1
    assert len(names(cluster, "x0")) == 2
