"""What is looked at to see whether a Redlock is safe: who votes, whose clock is off, whether the
nodes are independent of each other, and each node as a server.

An even number of nodes, one that is listed twice, a replica and a member of a cluster are refused
when the engine is opened or connects, so they are no findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

from hiredis import HiredisError

from locknut.backends.redis import server_health
from locknut.backends.redlock import node_admin
from locknut.backends.redlock.background_dial import located
from locknut.backends.redlock.ballots import majority
from locknut.backends.redlock.node_clocks import STEP
from locknut.backends.redlock.node_info import NodeInfo
from locknut.backends.redlock.nodes import name_of
from locknut.backends.redlock.recipe import Recipe
from locknut.core import findings
from locknut.core.durations import spell
from locknut.core.findings import Check, NotKnown, fail, ok, warn
from locknut.core.values import Finding
from locknut.drivers.redis import server_facts, wire
from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.endpoints import Endpoint
from locknut.drivers.redis.server_facts import ServerFacts
from locknut.errors import BackendError

Known = dict[str, ServerFacts | str]
"""Of each node: its facts, or why there are none."""
_AS_SERVERS: Final = (
    "redis-version",
    "redis-eviction",
    "redis-memory",
    "redis-idle-timeout",
    "redis-keepalive",
    "redis-clients",
)


def checks(places: Sequence[Endpoint], recipe: Recipe) -> list[Check]:
    """Of the nodes that are found at these places."""

    async def voting() -> list[Finding]:
        infos = [node_admin.look(place, recipe) for place in places]
        return [_votes(infos), _clocks(infos)]

    async def servers() -> list[Finding]:
        known: Known = {name_of(place): _facts(place) for place in places}
        reached = {name: facts for name, facts in known.items() if isinstance(facts, ServerFacts)}
        if not reached:
            raise NotKnown(f"No node could be asked: {next(iter(known.values()))}.")
        each = {name: _as_server(facts) for name, facts in reached.items()}
        hosts = {name_of(place): place.settings.host for place in places}
        return [
            *findings.merged(each),
            findings.judged("redlock-independence", lambda: _independence(reached, hosts)),
            findings.judged("redlock-durability", lambda: _durability(reached, recipe)),
        ]

    return [
        Check(("redlock-votes", "redlock-clocks"), voting),
        Check((*_AS_SERVERS, "redlock-independence", "redlock-durability"), servers),
    ]


def _facts(place: Endpoint) -> ServerFacts | str:
    try:
        return ServerFacts(_asked(place, server_facts.QUESTIONS), NotKnown)
    except BackendError as error:
        return error.message
    except (OSError, HiredisError) as error:
        return wire.unreachable(place.settings, error).message


def _asked(place: Endpoint, packed: Sequence[bytes]) -> list[Any]:
    connection = Connection(located(place))
    try:
        return connection.send_many(packed)
    finally:
        connection.close()


def _as_server(facts: ServerFacts) -> list[Finding]:
    def judged(code: str) -> Finding:
        judge: Callable[[ServerFacts], Finding] = server_health.JUDGES[code]
        return findings.judged(code, lambda: judge(facts))

    return [judged(code) for code in _AS_SERVERS]


def _votes(infos: Sequence[NodeInfo]) -> Finding:
    code, needed = "redlock-votes", majority(len(infos))
    silent = [each for each in infos if each.votes_in != 0 or each.problem]
    voting = len(infos) - len(silent)
    if not silent:
        return ok(code, f"All {len(infos)} nodes vote.")
    reasons = "; ".join(
        f"{each.place}: {each.problem or 'it does not vote yet'}" for each in silent
    )
    found = f"{voting} of {len(infos)} nodes vote, and {needed} are needed: {reasons}."
    if voting < needed:
        advice = (
            "Start the nodes; a new set begins with `locknut redlock init`, others wait max_ttl."
        )
        return fail(code, found, advice)
    spare = voting - needed
    advice = (
        f"See to the others: {f'only {spare} more may fail' if spare else 'no other may fail'}."
    )
    return warn(code, found, advice)


def _clocks(infos: Sequence[NodeInfo]) -> Finding:
    code = "redlock-clocks"
    ahead = {each.place: each.clock_ahead for each in infos if each.clock_ahead is not None}
    if not ahead:
        return findings.unknown(code, "No node told its time.")
    middle = median(ahead.values())
    off = {
        place: shows - middle for place, shows in ahead.items() if abs(shows - middle) > STEP / 1e6
    }
    if not off:
        return ok(code, "The clocks of the nodes agree.")
    said = ", ".join(f"{place} by {spell(abs(by))}" for place, by in off.items())
    found = (
        f"Clocks differ from those of the other nodes: {said}; votes of these nodes do not count."
    )
    advice = "Let all nodes take their time from NTP."
    few = len(ahead) - len(off) < majority(len(infos))
    return fail(code, found, advice) if few else warn(code, found, advice)


def _independence(known: dict[str, ServerFacts], hosts: dict[str, str]) -> Finding:
    code = "redlock-independence"
    runs: dict[str, list[str]] = {}
    for name, facts in known.items():
        runs.setdefault(facts.info("run_id"), []).append(name)
    for same in runs.values():
        if len(same) > 1:
            found = f"{' and '.join(same)} are one server, which votes twice."
            return fail(code, found, "Give each node a server of its own.")
    places = list(hosts.values())
    shared = sorted({host for host in places if host and places.count(host) > 1})
    if shared:
        found = f"Several nodes are on one machine ({', '.join(shared)}), and fail together."
        return warn(code, found, "Run each node on a machine of its own.")
    return ok(code, "The nodes are different servers on different hosts.")


def _durability(known: dict[str, ServerFacts], recipe: Recipe) -> Finding:
    code = "redlock-durability"
    if not recipe.durable:
        found = "A node that lost its data keeps out of votes until every hold it forgot has ended."
        return ok(code, found)
    losing = [name for name, facts in known.items() if not _keeps_all(facts)]
    if not losing:
        return ok(code, "The nodes never lose data, as durable=true promises.")
    found = f"durable=true promises that nodes never lose data, but {', '.join(losing)} may."
    advice = "Set appendonly to yes and appendfsync to always there, or leave durable out."
    return fail(code, f"The URL's {found}", advice)


def _keeps_all(facts: ServerFacts) -> bool:
    return facts.info("aof_enabled") == "1" and facts.setting("appendfsync") == "always"
