"""A line of ten thousand costs as much per hand-over as a line of two: counted on the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from locknut.backends.redis.recipe import bulk
from locknut.core.values import Claim, Granted
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.redis.conftest import claim, engine
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
ROUNDS = 20
STAY_ALIVE = """
local now = redis.call('time')[1] * 1000
for _, id in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  redis.call('zadd', KEYS[1], string.format('%.0f', now + 3600000), id)
end
for _, name in ipairs(KEYS) do redis.call('pexpire', name, 3600000) end
"""
"""Done by hand: nobody here shows every second that he is alive."""


class Cost(NamedTuple):
    """What the server did for one thing that clients asked for, so many times."""

    commands: Counter[str]
    micros: float
    """Of one call; told, not judged: a busy machine has a say in it."""


class Line:
    """A holder and so many in line, made in a few packets."""

    def __init__(self, server: RedisServer, length: int) -> None:
        self._server = server
        port: Any = engine(server).blocking(ThreadRuntime())
        self.port = port
        self.name = f"line-{length}"
        self.claims = [claim(self.name) for _ in range(length + 1)]
        run(self.port.release(claim("warm")))  # that script is known from now on
        assert isinstance(run(self.port.attempt(self.claims[0], 0.0)), Granted)
        packed = [self.port._recipe.acquire(each, bulk(b"l0")) for each in self.claims[1:]]
        for start in range(0, length, 1000):
            run(self.port._server.send_many(packed[start : start + 1000]))
            self._keep_alive()

    def _keep_alive(self) -> None:
        names = [f"t:{{{self.name}}}{part}" for part in (":alive", ":line", ":info")]
        self._server.ask("EVAL", STAY_ALIVE, len(names), *names)

    def cost(self, work: Callable[[], object]) -> Cost:
        self._server.ask("CONFIG", "RESETSTAT")
        work()
        counts: Counter[str] = Counter()
        micros = 0.0
        for name, stat in self._server.info("commandstats").items():
            facts = dict(fact.split("=") for fact in stat.split(","))
            counts[name.removeprefix("cmdstat_")] = int(facts["calls"])
            if name == "cmdstat_evalsha":
                micros = float(facts["usec_per_call"])
        return Cost(counts, micros)

    def hand_over(self) -> None:
        """From the first to the next, so often."""
        for at in range(ROUNDS):
            assert run(self.port.release(self.claims[at]))
            assert self.holder() == self.claims[at + 1].id

    def look_in(self, who: Claim) -> None:
        for _ in range(ROUNDS):
            run(self.port.attempt(who, 0.0))
            self.port._waiting.clear()

    def holder(self) -> str:
        found = self._server.ask("GETRANGE", f"t:{{{self.name}}}", 0, 31)
        assert isinstance(found, bytes)
        return found.decode()

    def close(self) -> None:
        for each in self.claims[: ROUNDS + 1]:
            self._server.ask("DEL", f"t:{{{self.name}}}:inbox:{each.id[:16]}0")
        names = [f"t:{{{self.name}}}{part}" for part in ("", ":alive", ":line", ":info")]
        self._server.ask("DEL", *names)
        run(self.port.close())


@pytest.mark.parametrize("of", ["hand_over", "look in of the last"])
def test_ten_thousand_in_line_cost_what_two_do(server: RedisServer, of: str) -> None:
    costs = []
    for length in (ROUNDS + 2, 10_000):
        line = Line(server, length)
        assert server.ask("ZCARD", f"t:{{{line.name}}}:line") == length
        if of == "hand_over":
            cost = line.cost(line.hand_over)
        else:
            cost = line.cost(lambda line=line: line.look_in(line.claims[-1]))  # type: ignore[misc]
        print(f"{length} in line: {cost.micros:.1f} us in the server per script")
        costs.append(cost.commands)
        line.close()
    assert costs[0] == costs[1]
    assert costs[1]["evalsha"] == ROUNDS


def test_a_hand_over_looks_at_the_first_only(server: RedisServer) -> None:
    """Not a thousand times one element, nor one time a thousand: what it reads is counted."""
    line = Line(server, 1000)
    read = []
    with server.connect() as watcher:
        watcher.ask("CLIENT", "SETNAME", "watcher")
        watcher.send("MONITOR")
        assert watcher.read() == b"OK"
        assert run(line.port.release(line.claims[0]))
        server.ask("ECHO", "enough")
        while b"enough" not in (said := watcher.read()):  # type: ignore[operator]
            read.append(str(said).lower())
    ranges = [each for each in read if '"zrange"' in each]
    assert ranges
    assert all('"0" "0"' in each or '"-1" "-1"' in each for each in ranges), ranges
    line.close()
