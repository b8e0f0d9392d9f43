"""The pure part of Redlock: what answers come to, and whose clock is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from locknut.backends.redlock.ballots import (
    HELD_BY_ANOTHER,
    JOINED,
    QUARANTINED,
    TOO_SMALL,
    VOTED,
    VOTES,
    Ballot,
    Round,
    attached,
    decided,
    decided_again,
    joined_number,
    joining,
    majority,
    renewed,
)
from locknut.backends.redlock.node_clocks import NodeClock, right
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Question, Route
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.rounds import Heard, RoundsBackend, Until
from locknut.drivers.redis import settings
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime
from locknut.urls import parse

SECOND = 1_000_000
NOON = 1_800_000_000 * SECOND


def test_a_majority_of_all_nodes_not_of_those_that_answered() -> None:
    assert [majority(n) for n in (3, 4, 5, 6, 7)] == [2, 3, 3, 4, 4]
    votes = Round(range(5), 5)
    votes.answers = {0: (VOTED, 7), 1: (VOTED, 7)}
    assert not votes.enough(VOTED)
    assert not votes.hopeless(VOTED)
    votes.failures = {2: OSError(), 3: OSError(), 4: OSError()}
    assert votes.hopeless(VOTED)


def test_votes_without_the_number_are_no_grant() -> None:
    votes = Round(range(5), 5)
    votes.answers = {0: (VOTED, 7), 1: (TOO_SMALL, 9), 2: (TOO_SMALL, 8)}
    assert votes.enough(VOTED, TOO_SMALL)
    assert not votes.enough(VOTED)
    assert votes.largest() == 9


def test_a_co_owner_takes_a_number_only_a_majority_knows() -> None:
    votes = Round(range(5), 5)
    votes.answers = {0: (JOINED, 7), 1: (JOINED, 7), 2: (JOINED, 5)}
    assert joined_number(votes) is None
    votes.answers[3] = (JOINED, 7)
    assert joined_number(votes) == 7


def test_a_co_owner_waits_for_those_who_may_agree() -> None:
    votes = Round(range(5), 5)
    votes.answers = {0: (JOINED, 5), 1: (JOINED, 5), 2: (JOINED, 7)}
    assert joining(votes), "two more may say 7"
    votes.answers[3] = (JOINED, 7)
    votes.failures[4] = OSError()
    assert not joining(votes)


def _clock_at(offset: float) -> NodeClock:
    clock = NodeClock()
    assert not clock.observe(NOON + int(offset * SECOND), 0.0, 0.001)
    return clock


def test_a_clock_that_goes_on_is_believed() -> None:
    clock = _clock_at(0)
    assert not clock.observe(NOON + 10 * SECOND, 10.0, 10.001)
    assert not clock.observe(NOON + 20 * SECOND + 90_000, 20.0, 20.001), "half a percent fast"


def test_a_slow_answer_is_no_step() -> None:
    """The node may have looked at its clock at any moment between question and answer."""
    clock = _clock_at(0)
    assert not clock.observe(NOON + 10 * SECOND, 10.0, 15.0)
    assert not clock.observe(NOON + 20 * SECOND, 20.0, 20.001)


def test_a_clock_that_was_set_is_noticed_in_both_directions() -> None:
    for step in (400_000, -400_000):
        clock = _clock_at(0)
        size = clock.observe(NOON + 10 * SECOND + step, 10.0, 10.001)
        assert 0.4 <= size < 0.41
        assert not clock.observe(NOON + 20 * SECOND + step, 20.0, 20.001), "it is steady again"


def test_one_percent_and_five_milliseconds_are_no_step() -> None:
    for late, stepped in ((103_000, False), (110_000, True)):
        for step in (late, -late):
            clock = _clock_at(0)
            assert bool(clock.observe(NOON + 10 * SECOND + step, 10.0, 10.001)) is stepped


def test_two_hundred_milliseconds_are_too_far() -> None:
    for offset, votes in ((0.19, True), (0.21, False)):
        clocks = [_clock_at(each) for each in (0.0, 0.0, offset)]
        assert right(clocks, 2) is votes


def test_a_clock_far_from_the_others_does_not_vote() -> None:
    clocks = [_clock_at(offset) for offset in (0.0, 0.1, -0.05, 0.4, 0.12)]
    assert [right(clocks, at) for at in range(5)] == [True, True, True, False, True]


def test_one_wrong_clock_of_three_does_not_take_the_others_with_it() -> None:
    """The middle between a right and a wrong one is nobody's time."""
    clocks = [_clock_at(offset) for offset in (0.0, 0.01, 5.0)]
    assert [right(clocks, at) for at in range(3)] == [True, True, False]
    clocks = [_clock_at(offset) for offset in (0.0, 0.01, 0.02, 5.0, 5.0)]
    assert [right(clocks, at) for at in range(5)] == [True, True, True, False, False]


def test_of_two_that_differ_neither_votes() -> None:
    """Who is wrong is known when a third has answered."""
    clocks = [_clock_at(0.0), _clock_at(5.0), NodeClock()]
    assert not any(right(clocks, at) for at in range(2))
    clocks[2] = _clock_at(5.01)
    assert [right(clocks, at) for at in range(3)] == [False, True, True]


def test_of_an_answer_that_took_long_the_clock_is_not_known() -> None:
    """It may hide a step of as much."""
    clocks = [_clock_at(0.0), _clock_at(0.01), NodeClock()]
    clocks[2].observe(NOON + SECOND // 2, 0.0, 0.6)
    assert right(clocks, 2) is None
    clocks[2].observe(NOON + SECOND + 10_000, 1.0, 1.001)
    assert right(clocks, 2)


class Alone(RoundsBackend):
    """Nobody is asked: the test tells the answers."""

    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        raise AssertionError

    def _tell(self, questions: Sequence[Question]) -> None:
        raise AssertionError


def _guarded(nodes: int) -> tuple[Round, Callable[[int, Any], bool]]:
    servers = [FixedEndpoint(settings.read(parse(f"redis://node{at}"))) for at in range(nodes)]
    recipe = Recipe(max_ttl=60.0, durable=False, set_id="")
    votes = Round(range(nodes), nodes)
    heard = Alone(NodeSet(servers, 60.0, now), recipe, 0.3, ThreadRuntime())._hears(votes, decided)
    words = recipe.look("x")
    return votes, lambda at, answer: heard(Question(at, words), answer, now())


def test_a_vote_is_doubted_when_the_others_have_told_their_clocks() -> None:
    """The first to answer cannot be compared with anybody: it must not count for that."""
    votes, hear = _guarded(5)
    assert not hear(0, [VOTED, 7, NOON + 5 * SECOND])
    assert not hear(1, [VOTED, 7, NOON])
    assert not hear(2, [VOTED, 7, NOON]), "the third vote is of a node whose clock is wrong"
    assert hear(3, [VOTED, 7, NOON])
    assert votes.said(VOTED) == [1, 2, 3]


def test_a_node_that_does_not_vote_has_not_said_who_holds_it() -> None:
    """One is in quarantine and two say that somebody has it: the others may make it three."""
    votes = Round(range(5), 5)
    votes.answers = {0: (QUARANTINED, 900), 1: (HELD_BY_ANOTHER, 40), 2: (HELD_BY_ANOTHER, 40)}
    assert votes.hopeless(*VOTES)
    assert not decided(votes)
    votes.answers[3] = (HELD_BY_ANOTHER, 40)
    assert decided(votes)


def test_three_that_do_not_vote_decide_it() -> None:
    votes = Round(range(5), 5)
    votes.answers = {0: (QUARANTINED, 900), 1: (QUARANTINED, 900)}
    votes.failures = {2: OSError()}
    assert decided(votes)


def test_a_second_round_is_not_kept_waiting_by_nodes_that_may_hang() -> None:
    votes = Round(range(5), 5)
    votes.answers = {0: (VOTED, 7), 1: (TOO_SMALL, 9)}
    assert not decided(votes)
    votes.answers[2] = (VOTED, 7)
    assert decided(votes)


def test_who_asks_again_keeps_its_number_as_long_as_a_majority_may_have_it() -> None:
    votes = Round(range(5), 5)
    votes.answers = {0: (VOTED, 7), 1: (TOO_SMALL, 9), 2: (VOTED, 7)}
    assert decided(votes)
    assert not decided_again(votes)
    votes.answers[3] = (VOTED, 7)
    assert decided_again(votes)
    votes.answers[3] = (TOO_SMALL, 9)
    assert not decided_again(votes)
    votes.failures[4] = OSError()
    assert decided_again(votes)


def test_a_node_that_forgot_does_not_say_who_attached_it() -> None:
    taken = Round(range(5), 5)
    taken.answers = {0: (0, 0), 1: (0, 77), 2: (0, 77)}
    assert taken.hopeless(1)
    assert not attached(taken), "two more may say 77"
    taken.answers[3] = (0, 77)
    assert attached(taken)


def test_an_attach_goes_on_until_a_majority_has_swapped_or_none_can() -> None:
    taken = Round(range(5), 5)
    taken.answers = {0: (1, 7), 1: (1, 7)}
    assert not attached(taken)
    taken.answers[2] = (1, 7)
    assert attached(taken)


def test_what_was_not_answered_may_arrive_later() -> None:
    """Also when it was asked again, and that was answered; also where the connection broke."""
    ballot = Ballot(0)
    first, second = Round(range(5), 5), Round(range(5), 5)
    ballot.attempted(first)
    first.answers = {0: (VOTED, 7), 1: (VOTED, 7), 2: (VOTED, 7)}
    first.failures = {3: ConnectionResetError()}
    assert ballot.unsettled() == {3, 4}
    ballot.attempted(second)
    second.answers = dict.fromkeys(range(5), (VOTED, 7))
    assert ballot.unsettled() == {3, 4}
    ballot.mended.add(0)
    assert ballot.unsettled() == {0, 3, 4}


def test_a_proposal_that_was_refused_is_not_built_upon() -> None:
    """A clock far ahead proposes what no node accepts; the next number is above what nodes told."""
    nodes = NodeSet([], 60.0, now)
    assert nodes.propose(10_000_000) == 10_000_000
    nodes.seen(41)
    assert nodes.propose(0) == 42


def test_a_renewal_waits_for_those_who_may_make_the_loss_known() -> None:
    answers = Round(range(5), 5)
    answers.answers, answers.failures = {0: (0, 0), 1: (0, 0)}, {2: OSError()}
    assert answers.hopeless(1)
    assert not renewed(answers)
    answers.answers[3] = (0, 0)
    assert renewed(answers)
    answers.answers, answers.failures = {0: (0, 0), 1: (1, 0)}, {2: OSError(), 3: OSError()}
    assert renewed(answers), "whatever the last one says"


def test_a_release_is_behind_the_votes_only_by_the_connection_that_carried_them_all() -> None:
    ballot, old, new = Ballot(0), Route(1, b"run"), Route(1, b"run")
    assert not ballot.went_by(old), "nobody knows by which way anything went"
    ballot.goes_by(old)
    ballot.goes_by(old)
    assert ballot.went_by(old)
    assert not ballot.went_by(new), "the same node, and yet another way"
    ballot.goes_by(new)
    assert not ballot.went_by(old)
    assert not ballot.went_by(new)


def test_nor_is_it_behind_what_may_have_been_set_anew() -> None:
    ballot, line = Ballot(0), Route(1, b"run")
    ballot.goes_by(line)
    ballot.mended.add(1)
    assert not ballot.went_by(line)
