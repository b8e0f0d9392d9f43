"""Until when a session is sure to live: never by pings, and never by one answer alone (S9)."""

from __future__ import annotations

import math

from locknut.backends.zookeeper.proving import Proof
from locknut.core import pacing

T = 8.0


def connected(at: float = 0.0) -> Proof:
    proof = Proof()
    proof.connected(at, T)
    return proof


def beat(proof: Proof, sent: float) -> None:
    proof.sent(sent, through_leader=True)
    proof.answered(sent)


def test_a_new_session_lives_for_its_timeout_from_when_it_was_asked_for() -> None:
    assert connected(100.0).until() == pacing.validity(100.0, T)
    assert Proof().until() == -math.inf


def test_validity_counts_from_the_last_but_one_answered_sync() -> None:
    proof = connected()
    for number in range(1, 10):
        beat(proof, number * T / 4)
        assert proof.until() == pacing.validity((number - 1) * T / 4, T)


def test_what_is_not_answered_proves_nothing() -> None:
    proof = connected()
    for number in range(1, 10):
        proof.sent(number * T / 4, through_leader=True)
    assert proof.until() == pacing.validity(0.0, T)


def test_two_syncs_in_a_row_are_no_more_than_one() -> None:
    """The follower may not have told the leader of the first when the second is answered."""
    proof = connected()
    beat(proof, 100.0)
    beat(proof, 100.1)
    assert proof.until() == pacing.validity(0.0, T)


def test_a_busy_session_is_proven_by_what_it_does() -> None:
    proof = connected()
    at = 0.0
    while at < 100:
        at += 0.05
        beat(proof, at)
    assert at - T / 4 - T / 8 - 0.1 < proof.until() - T + (T * 0.01 + 0.002) <= at - T / 4


def test_reads_touch_but_do_not_prove() -> None:
    proof = connected()
    proof.sent(10.0, through_leader=False)
    proof.sent(13.0, through_leader=False)
    assert proof.until() == pacing.validity(0.0, T)
    beat(proof, 13.0)
    assert proof.until() == pacing.validity(10.0, T)


def test_after_a_reconnect_only_the_new_connection_counts() -> None:
    proof = connected()
    beat(proof, 2.0)
    proof.connected(50.0, T)
    assert proof.until() == pacing.validity(50.0, T)
    proof.lost()
    assert proof.until() == -math.inf


def test_a_sync_is_due_every_quarter() -> None:
    proof = connected()
    assert not proof.due(1.9)
    assert proof.due(2.0)
    beat(proof, 2.0)
    assert not proof.due(3.9)
