"""Until when a session is sure to live: never by pings, by one answer, or by one server's word."""

from __future__ import annotations

import math

from locknut.backends.zookeeper.session_proof import Proof
from locknut.core import pacing

T = 8.0
QUARTER = T / 4


class Asked:
    """Counts how often the leader was asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def connected(at: float = 0.0, asked: Asked | None = None) -> Proof:
    proof = Proof(asked or Asked())
    proof.connected(at, at, T, new=True)
    return proof


def write(proof: Proof, sent: float, answered: float | None = None) -> None:
    at = sent if answered is None else answered
    proof.touched(sent, at)
    proof.answered(sent, at, majority=True)


def sync(proof: Proof, sent: float) -> None:
    proof.touched(sent, sent)
    proof.answered(sent, sent, majority=False)


def beat(proof: Proof, sent: float) -> None:
    """A write, and the question that its answer leads to."""
    write(proof, sent)
    sync(proof, sent)


def proven_from(proof: Proof, since: float) -> bool:
    return proof.until() == pacing.validity(since, T)


def test_a_new_session_lives_for_its_timeout_from_when_it_was_asked_for() -> None:
    assert proven_from(connected(100.0), 100.0)
    assert Proof().until() == -math.inf


def test_validity_counts_from_the_last_but_one_answered_write() -> None:
    proof = connected()
    beat(proof, QUARTER)
    for number in range(2, 10):
        beat(proof, number * QUARTER)
        assert proven_from(proof, (number - 1) * QUARTER)


def test_what_is_not_answered_proves_nothing() -> None:
    """A touch counts when it was answered: until then nobody need have heard of it."""
    proof = connected()
    for number in range(1, 10):
        proof.beats(number * QUARTER)
    assert proven_from(proof, 0.0)
    beat(proof, 10 * QUARTER)
    assert proven_from(proof, 0.0)


def test_a_touch_counts_from_its_answer_not_from_its_sending() -> None:
    """A stalled link: touch and write arrive in one burst, and the leader has heard of neither."""
    proof = connected()
    proof.touched(1.25, 3.75)
    beat(proof, 3.75)
    assert proven_from(proof, 0.0)
    beat(proof, 3.75 + QUARTER)
    assert proven_from(proof, 3.75)


def test_a_leader_alone_proves_nothing() -> None:
    """It answers syncs after the majority has left it."""
    proof = connected()
    for number in range(1, 40):
        sync(proof, number * QUARTER)
    assert proven_from(proof, 0.0)


def test_the_leader_has_heard_of_a_touch_only_when_it_answers_once_more() -> None:
    asked = Asked()
    proof = connected(asked=asked)
    beat(proof, QUARTER)
    assert asked.times == 0
    write(proof, 2 * QUARTER)
    assert asked.times == 1
    assert proven_from(proof, 0.0)
    proof.answered(2 * QUARTER - 0.1, 2 * QUARTER + 0.1, majority=True)  # sent before that answer
    assert proven_from(proof, 0.0)
    sync(proof, 2 * QUARTER)
    assert proven_from(proof, QUARTER)


def test_two_writes_in_a_row_are_no_more_than_one() -> None:
    """The follower may not have told the leader of the first when the second is answered."""
    proof = connected()
    beat(proof, 100.0)
    beat(proof, 100.1)
    beat(proof, 100.2)
    assert proven_from(proof, 0.0)


def test_a_busy_session_is_proven_by_what_it_does() -> None:
    proof = connected()
    at = 0.0
    while at < 100:
        at += 0.05
        write(proof, at)
    since = proof.until() - T + (T * 0.01 + 0.002)
    assert at - T / 4 - T / 8 - 0.2 < since <= at - T / 4


def test_reads_touch_but_do_not_prove() -> None:
    proof = connected()
    proof.touched(10.0, 10.0)
    proof.touched(13.0, 13.0)
    assert proven_from(proof, 0.0)
    beat(proof, 13.0)
    assert proven_from(proof, 10.0)


def test_a_session_that_was_taken_back_is_proven_by_a_write() -> None:
    """A leader of the past takes sessions back, too."""
    proof = connected()
    proof.connected(5.0, 5.0, T, new=False)
    assert proven_from(proof, 0.0), "what was proven before stays true"
    sync(proof, 5.1)
    assert proven_from(proof, 0.0)
    write(proof, 5.2)
    assert proven_from(proof, 5.0), "the leader itself was asked: no quarter has to pass"


def test_what_another_connection_was_told_is_of_no_use() -> None:
    proof = connected()
    write(proof, 3.0)
    write(proof, 6.0)  # the third answer is missing
    proof.connected(6.5, 6.5, T, new=False)
    sync(proof, 6.6)
    assert proven_from(proof, 0.0)


def test_another_timeout_makes_nothing_longer() -> None:
    proof = connected()
    proof.connected(1.0, 1.0, 4 * T, new=False)
    assert proof.until() <= pacing.validity(0.0, T) + 1e-6
    proof = connected()
    proof.connected(1.0, 1.0, T / 2, new=False)
    assert proof.until() == pacing.validity(0.0, T / 2)


def test_an_expired_session_is_not_proven() -> None:
    proof = connected()
    beat(proof, QUARTER)
    proof.lost()
    assert proof.until() == -math.inf
    proof.connected(50.0, 50.0, T, new=True)
    assert proven_from(proof, 50.0)


def test_a_write_is_due_a_quarter_after_the_last_that_proved_something() -> None:
    proof = connected()
    assert proof.due() == QUARTER
    proof.beats(QUARTER)
    write(proof, QUARTER, 2.5)
    assert proof.due() == 2.5 + QUARTER, "sooner it would not prove that one"
    write(proof, 3.0)  # what others send in between does not put it off
    assert proof.due() == 2.5 + QUARTER
    proof.beats(4.5)
    write(proof, 4.5)
    sync(proof, 4.5)
    assert proven_from(proof, QUARTER)
    assert proof.due() == 4.5 + QUARTER


def test_a_write_is_due_at_once_after_a_reconnect() -> None:
    proof = connected()
    proof.connected(5.0, 5.0, T, new=False)
    assert proof.due() == -math.inf


def test_a_write_is_wanted_every_eighth_at_most() -> None:
    proof = connected()
    assert proof.wants(0.0)
    write(proof, 3.0)
    assert not proof.wants(3.9)
    sync(proof, 4.0)
    assert proof.wants(4.0)
    write(proof, 4.0)
    proof.connected(4.1, 4.1, T, new=False)
    assert proof.wants(4.1), "nobody knows of the new connection"
