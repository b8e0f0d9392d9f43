"""Redlock as it should not be: what the published one leaves open, and what was tried and is wrong.

Each is the production code with one piece of its Lua or its Python replaced, and must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from locknut.backends.redlock import backend, ballots, nodes, recipe
from locknut.backends.redlock.backend import RedlockBackend
from locknut.backends.redlock.ballots import Ballot, Round
from locknut.backends.redlock.node_clocks import NodeClock
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Question, Route
from locknut.backends.redlock.recipe import Recipe
from locknut.core import pacing
from locknut.core.client import Client
from locknut.core.values import Answer, Claim, Granted
from tests.simulation.bugs import Bug, core
from tests.simulation.redis.faults import Edit
from tests.simulation.redlock.bug_kinds import WAIT, naive
from tests.simulation.redlock.data_loss_bugs import FORGETFUL
from tests.simulation.redlock.engine import ASSUMED
from tests.simulation.redlock.faults import RedlockFaults
from tests.simulation.sizes import BOUT, DUEL
from tests.simulation.variant import Patch


def instead(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def trusts_everybody(_: Any) -> Callable[[NodeSet, int], int]:
    """The clock guard is off."""
    return lambda _set, _node: 0


def middle_of_the_others(_: Any) -> Callable[[list[NodeClock], int], bool]:
    """Of two others, the mean: one wrong clock of three makes the other two wrong as well."""

    def right(clocks: list[NodeClock], which: int) -> bool:
        others = [(each.low + each.high) / 2 for each in clocks if each.at is not None]
        mine = others.pop(sum(each.at is not None for each in clocks[:which]))
        middle = sum(others) / len(others) if others else mine
        return abs(mine - middle) <= 250_000

    return right


def never(_: Any) -> Callable[[list[NodeClock]], bool]:
    """There is no short way to see that clocks agree."""
    return lambda _clocks: False


def no_doubt(withdraw: Callable[..., Any]) -> Callable[..., Any]:
    """Nothing that was sent can come later than this."""

    def words(
        known: Recipe, claim: Claim, *, outcome_unknown: bool, **more: Any
    ) -> Any:  # passed on
        return withdraw(known, claim, outcome_unknown=outcome_unknown and False, **more)

    return words


def went_anyhow(_: Any) -> Callable[[Ballot, Route], bool]:
    """It does not matter by which connection a release goes."""
    return lambda _ballot, _route: True


Verb = Callable[..., Coroutine[Any, Any, Any]]


def throws_late_votes_away(attempt: Verb) -> Verb:
    """A majority is enough; whoever votes later is told to forget it (L2)."""

    async def attempted(engine: RedlockBackend, claim: Claim, patience: float) -> Answer:
        answer: Answer = await attempt(engine, claim, patience)
        ballot = engine._set.ballots.get(claim.id)
        if isinstance(answer, Granted) and ballot is not None and ballot.votes is not None:
            words = engine._recipe.withdraw(claim, outcome_unknown=False)
            engine._tell([Question(at, words) for at in sorted(ballot.votes.unanswered)])
        return answer

    return attempted


def largest(_: Any) -> Verb:
    """Each node counts for itself, and the largest count is the fence."""

    async def number(_engine: RedlockBackend, _claim: Claim, votes: Round, _: int) -> int | None:
        return votes.largest() if votes.enough(*ballots.VOTES) else None

    return number


def without_acceptance(_: Any) -> Verb:
    """A majority of votes is enough: whether the number was accepted does not matter."""

    async def number(_engine: RedlockBackend, _claim: Claim, votes: Round, mine: int) -> int | None:
        return mine if votes.enough(*ballots.VOTES) else None

    return number


def one_fewer(_: Any) -> Callable[[int], int]:
    """Half of the nodes are enough."""
    return lambda count: count // 2


def hopeless(_: Any) -> Callable[[Round], bool]:
    """Who did not answer a release has not got it either: a loss that is none is told."""
    return lambda answers: answers.hopeless(1)


def builds_on_what_was_refused(_: Any) -> Callable[[NodeSet, int], int]:
    """The largest number seen is also what nobody accepted: a clock far ahead gets no other."""

    def propose(known: NodeSet, clock: int) -> int:
        known.largest = max(known.largest + 1, clock)
        return known.largest

    return propose


_STOPS = RedlockFaults(processes_stop=3.0, slow=0.3)
_JUMPS = RedlockFaults(clock_jumps=1.0, request_lost=0.1)
_LATE = RedlockFaults(late=0.15, slow=0.3, connections_cut=0.5)
_LOSSY = RedlockFaults(request_lost=0.1, reply_lost=0.1, slow=0.2, server_stops=0.5)
_RUSH = replace(DUEL, workers=(2,), rest=0.05, rounds=20)
_CROWD = replace(BOUT, processes=(5,), rest=0.02, rounds=40)
"""Votes are split all the time. A give-back that comes late and hits is rare all the same: one
seed in twenty; `test_tries.py` shows the rule on a real node."""
_READ = "tonumber(string.match(redis.call('get', FENCE) or '0', '^%d+'))"
_KEEP = "redis.call('set', FENCE, text(largest) .. ' ' .. id .. ' ' .. shown)"

BUGS: dict[str, Bug] = {
    **FORGETFUL,
    "redlock-validity-from-reply": naive(
        Patch(Client, "lend", core.counted_from_the_reply),
        rules="ad",
        faults=_STOPS,
        only=("grip",),
        size=BOUT,
    ),
    "redlock-no-margin": naive(
        Patch(recipe, "GUARD", instead(0.0)),
        Patch(pacing, "MARGIN_SHARE", core.no_margin),
        Patch(pacing, "MARGIN_SECONDS", core.no_margin),
        rules="a",
        faults=RedlockFaults(drift=0.009),
        only=("grip",),
    ),
    "redlock-no-clock-guard": naive(
        Patch(NodeSet, "doubts", trusts_everybody),
        rules="a",
        faults=_JUMPS,
        only=("grip",),
        size=BOUT,
    ),
    "redlock-middle-of-the-others": naive(
        Patch(nodes, "right", middle_of_the_others),
        Patch(nodes, "in_step", never),
        rules="f",
        faults=RedlockFaults(clock_jumps=0.5),
        size=WAIT,
    ),
    "redlock-half-is-enough": naive(
        Patch(ballots, "majority", one_fewer),
        rules="a",
        faults=RedlockFaults(request_lost=0.2),
        sizes=(4,),
        only=("grip",),
    ),
    "redlock-no-tombstone": naive(Patch(Recipe, "withdraw", no_doubt), rules="g", faults=_LATE),
    "redlock-no-tombstone-by-another-way": naive(
        Patch(Ballot, "went_by", went_anyhow),
        rules="g",
        faults=RedlockFaults(late=0.02),
        only=("grip",),
        size=BOUT,
    ),
    "redlock-tombstone-ignored": naive(
        Edit("vote", "elseif buried(id) then", "elseif false then"), rules="g", faults=_LATE
    ),
    "redlock-give-back-takes-all": naive(
        Edit("withdraw", "if ARGV[4] ~= '0' and try_of(id) >", "if false and try_of(id) >"),
        rules="ad",
        faults=RedlockFaults(late=0.1, slow=0.7),
        only=("grip",),
        size=_CROWD,
    ),
    "redlock-every-node-counts": naive(
        Edit(
            "vote",
            "local accepted, largest = accept(id, number, shown)",
            f"local accepted, largest = true, {_READ} + 1\n      {_KEEP}",
        ),
        Patch(RedlockBackend, "_number", largest),
        rules="b",
        faults=RedlockFaults(request_lost=0.2, reply_lost=0.1, processes_stop=1.0),
    ),
    "redlock-accepted-by-nobody": naive(
        Patch(RedlockBackend, "_number", without_acceptance), rules="b", faults=_LOSSY
    ),
    "redlock-joins-a-refused-number": naive(
        Edit("vote", "what == 2 and 0 or raw", "what == 2 and number or raw"),
        rules="b",
        faults=RedlockFaults(),
        only=("owned",),
        size=_RUSH,
    ),
    "redlock-late-votes-thrown-away": naive(
        Patch(RedlockBackend, "attempt", throws_late_votes_away),
        rules="d",
        faults=RedlockFaults(emptied=1.0),
        given=replace(ASSUMED, minority=1),
        size=replace(DUEL, rest=1.0, rounds=4),
    ),
    "redlock-lost-before-all-said-so": naive(
        Patch(backend, "missed", hopeless), rules="d", faults=_LOSSY, sizes=(5,)
    ),
    "redlock-builds-on-what-was-refused": naive(
        Patch(NodeSet, "propose", builds_on_what_was_refused),
        rules="fg",
        faults=RedlockFaults(),
        size=WAIT,
    ),
}
