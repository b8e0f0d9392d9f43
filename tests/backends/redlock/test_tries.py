"""What gives a try back may be long on its way: it takes nothing from a later try."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from locknut.backends.redlock.ballots import HELD_BY_ANOTHER, VOTED
from locknut.backends.redlock.questions import Route, Words
from locknut.backends.redlock.recipe import Recipe
from locknut.core.values import Claim
from tests.servers.redis import RedisServer
from tests.servers.resp import Wire

pytestmark = pytest.mark.redis
_ids = itertools.count(1)


class OneNode:
    """A node of a set, asked in the words of the engine, one after the other."""

    def __init__(self, server: RedisServer, wire: Wire):
        self.recipe = Recipe(max_ttl=10.0, durable=True, set_id="")
        self._route = Route(0, server.info()["run_id"].encode())
        self._wire = wire

    def ask(self, words: Words) -> int:
        script, packed = words(self._route)
        self._wire.ask("SCRIPT", "LOAD", script.text)
        self._wire.send_packed(packed)
        answer = self._wire.read()
        assert isinstance(answer, list)
        assert isinstance(answer[0], int)
        return answer[0]

    def vote(self, claim: Claim, tries: int) -> int:
        """Its number may be too small: it is a vote all the same."""
        return self.ask(self.recipe.vote(claim, 1, 1, b"", tries))

    def give_back(self, claim: Claim, tries: int) -> int:
        return self.ask(self.recipe.withdraw(claim, outcome_unknown=False, tries=tries))


@pytest.fixture(scope="module")
def node() -> Iterator[OneNode]:
    with RedisServer() as server, server.connect() as wire:
        yield OneNode(server, wire)


def claim() -> Claim:
    number = next(_ids)
    return Claim(f"locknut:x{number}", f"{number:032x}", 5.0)


def test_a_late_give_back_leaves_the_vote_of_a_later_try(node: OneNode) -> None:
    mine, other = claim(), claim()
    other = other._replace(key=mine.key)
    assert node.vote(mine, 1) > HELD_BY_ANOTHER
    assert node.vote(mine, 2) > HELD_BY_ANOTHER
    assert node.give_back(mine, 1) == 0
    assert node.vote(other, 1) == HELD_BY_ANOTHER, "the second try still has it"
    assert node.give_back(mine, 2) == 1
    assert node.vote(other, 2) > HELD_BY_ANOTHER


def test_so_does_one_that_comes_after_an_older_vote_came_late(node: OneNode) -> None:
    mine = claim()
    assert node.vote(mine, 3) > HELD_BY_ANOTHER
    assert node.vote(mine, 2) > HELD_BY_ANOTHER, "it was sent before, and does not make it older"
    assert node.give_back(mine, 2) == 0


def test_what_was_renewed_is_no_try_any_more(node: OneNode) -> None:
    """The vote of a first try stayed, a second was granted by others and counts on this."""
    mine = claim()
    assert node.vote(mine, 1) > HELD_BY_ANOTHER
    assert node.ask(node.recipe.extend(mine, 7, anew=False)) == VOTED
    assert node.give_back(mine, 1) == 0


def test_what_was_set_anew_is_none_either(node: OneNode) -> None:
    mine = claim()
    assert node.ask(node.recipe.extend(mine, 7, anew=True)) == 2
    assert node.give_back(mine, 1) == 0


def test_the_end_of_the_claim_takes_every_vote_and_leaves_nothing(node: OneNode) -> None:
    mine = claim()
    assert node.vote(mine, 5) > HELD_BY_ANOTHER
    assert node.ask(node.recipe.extend(mine, 7, anew=False)) == VOTED
    assert node.ask(node.recipe.withdraw(mine, outcome_unknown=False)) == 1
    assert node.give_back(mine, 9) == 0, "it is over"
