"""A vote that could not be sent at once is not sent any more when its claim is over."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.backends.redlock.ballots import Ballot, Round
from locknut.backends.redlock.questions import Route
from locknut.backends.redlock.scripts import WITHDRAW
from locknut.core.values import Claim
from locknut.opening import Settings
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.redlock.reaching import reach_all
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
MINE = Claim("locknut:x", f"{7:032x}", 5.0)


class Looked(dict[str, Ballot]):
    """Notes what was known of the ways when it was looked whether the claim is over."""

    def __init__(self, ballot: Ballot, route: Route) -> None:
        super().__init__({MINE.id: ballot})
        self._ballot, self._route = ballot, route
        self.known: list[bool] = []

    def __contains__(self, key: object) -> bool:
        self.known.append(self._ballot.went_by(self._route))
        return super().__contains__(key)


def test_where_it_goes_is_known_before_it_is_looked_whether_it_is_over() -> None:
    """Whoever ends the claim in another thread sees the one, or is seen by the other."""
    engine: Any = open_engine("redlock://a,b,c")[0]
    backend, ballot, line = engine.blocking(ThreadRuntime()), Ballot(0), Route(1, b"run")
    ballots = backend._set.ballots = Looked(ballot, line)
    words = backend._voting(MINE, ballot, 1, b"")
    assert words(line)[1]
    assert ballots.known == [True]
    del ballots[MINE.id]
    assert not words(line)[1], "it is over"


def loads(node: RedisServer) -> int:
    told = node.info("commandstats").get("cmdstat_script|load", "calls=0,")
    return int(told.partition("calls=")[2].partition(",")[0])


@pytest.mark.parametrize("colour", list(COLOURS))
def test_a_script_that_was_forgotten_brings_no_vote_back_behind_its_release(
    three: RedlockNodes, colour: str
) -> None:
    """The node knows how to release, and not how to vote, and says so when both are through."""
    paint = COLOURS[colour]()
    late = three.nodes[2]

    async def body() -> None:
        locks = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        await reach_all(paint, locks, three, "warm")
        late.script_flush()
        late.ask("SCRIPT", "LOAD", WITHDRAW.text)
        before = loads(late)
        late.stop()
        async with locks.lock("x", ttl=60):
            pass
        late.cont()
        while loads(late) == before:  # it has not heard of it yet
            async with locks.lock("other"):
                await paint.pause(0.01)
        await reach_all(paint, locks, three, "behind whatever was sent again")
        assert late.ask("EXISTS", "locknut:{x}:redlock") == 0
        await locks.close()

    paint.run(body())


def test_votes_may_be_split_any_number_of_times() -> None:
    """The while doubles with each of them, up to a point: 1,024 were one too many for a float."""
    engine: Any = open_engine("redlock://a,b,c")[0]
    backend, ballot, votes = engine.blocking(ThreadRuntime()), Ballot(0), Round((0, 1, 2), 3)
    votes.answers = {0: [1, 5], 1: [0, 100, 7], 2: [0, 100, 7]}
    assert all(backend._refused(ballot, votes).retry_in < 1 for _ in range(2000))
