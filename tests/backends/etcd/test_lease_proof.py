"""Until when a lease is sure to live: what each answer proves, and what it does not."""

from __future__ import annotations

import pytest

from locknut.backends.etcd.lease_proof import LeaseProof
from locknut.backends.etcd.settings import Settings
from locknut.backends.etcd.shared_lease import SharedLease
from locknut.core.pacing import validity
from locknut.drivers.etcd import settings as driver
from locknut.drivers.etcd.requests import Lease
from tests.backends.etcd.conftest import claim

TTL = 8.0


@pytest.fixture
def proof() -> LeaseProof:
    return LeaseProof(100.0, TTL)


def test_a_new_lease_counts_from_when_it_was_asked_for(proof: LeaseProof) -> None:
    assert proof.until() == validity(100.0, TTL)


def test_the_word_of_a_leader_alone_is_not_believed(proof: LeaseProof) -> None:
    proof.kept(104.0, 104.1, TTL, 7)
    assert proof.until() == validity(100.0, TTL)


def test_a_majority_that_answers_later_in_the_same_term_proves_it(proof: LeaseProof) -> None:
    proof.kept(104.0, 104.1, TTL, 7)
    proof.committed(104.1, 7)
    assert proof.until() == validity(104.0, TTL), "from the sending, not from the answer"


def test_one_in_a_later_term_does_not(proof: LeaseProof) -> None:
    """The old leader may have answered while a new one was counting already."""
    assert proof.asks(104.0)
    proof.kept(104.0, 104.1, TTL, 7)
    proof.committed(104.2, 8)
    assert proof.until() == validity(100.0, TTL)
    assert proof.due() <= 104.2, "it is asked again at once"
    proof.committed(104.3, 7)
    assert proof.until() == validity(100.0, TTL), "by then it is too late to tell"


def test_one_in_an_earlier_term_proves_nothing_yet(proof: LeaseProof) -> None:
    """A member that is behind the others has answered it."""
    proof.kept(104.0, 104.1, TTL, 7)
    proof.committed(104.2, 6)
    assert proof.until() == validity(100.0, TTL)
    proof.committed(104.3, 7)
    assert proof.until() == validity(104.0, TTL)


def test_what_was_sent_before_the_answer_proves_nothing(proof: LeaseProof) -> None:
    proof.kept(104.0, 104.1, TTL, 7)
    proof.committed(104.05, 7)
    assert proof.until() == validity(100.0, TTL)


def test_less_is_never_proven_than_before(proof: LeaseProof) -> None:
    proof.kept(106.0, 106.1, TTL, 7)
    proof.kept(104.0, 106.2, TTL, 7)
    proof.committed(106.3, 7)
    assert proof.until() == validity(106.0, TTL)


def test_a_shorter_time_is_what_counts(proof: LeaseProof) -> None:
    proof.kept(104.0, 104.1, 5.0, 7)
    proof.committed(104.2, 7)
    assert proof.until() == validity(104.0, 5.0)


def test_one_keep_alive_is_asked_for_every_quarter(proof: LeaseProof) -> None:
    assert not proof.asks(101.9)
    assert proof.asks(102.0)
    assert not proof.asks(102.0), "somebody asks already"
    proof.hurry()
    assert proof.asks(102.0)


def test_another_lease_counts_for_nothing() -> None:
    """Neither does what is said of the lease before extend this one, nor is this one a proof for a
    key that belonged to that.
    """
    shared = SharedLease(Settings(driver.Settings((("local", 0),))))
    assert shared.opened(Lease(1, 10, 7, 1, 0.0), 0.0, b"one", 5)
    state = shared.state_of(claim())
    assert shared.vouches(state) == shared.until()
    shared.lost(1)
    assert shared.opened(Lease(2, 10, 7, 1, 100.0), 100.0, b"two", 9)
    proven = shared.until()
    shared.kept(Lease(1, 10, 7, 1, 105.0), 105.0, 106.0)
    shared.committed(107.0, 7)
    assert shared.until() == proven
    assert shared.vouches(state) == 0
    shared.kept(Lease(2, 10, 7, 1, 105.0), 105.0, 106.0)
    shared.committed(107.0, 7)
    assert shared.until() > proven
