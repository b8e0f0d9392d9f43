"""Looking for deadlocks: for people, and for a caller that waits and may have to give way.

`waits_for` adds what only this process knows, the lines of its own threads and tasks. A `Lookout`
does not: it goes by nothing but what the engines say, so that everybody who looks comes to the same
party, and only that one gives way. What is not in an engine for all to see (a line inside a
process that does not take part) is left out; a deadlock through it is not broken.

What an engine says of many locks was not true at one moment. So a circle counts when it was seen
twice: a wait or a hold that is the same in both looks was there in between, and so all of them were
there at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import callers, forking, inspecting, validation
from locknut.core.values import Capability, Holder, LockInfo, Mode
from locknut.core.wait_circles import graph_of
from locknut.errors import DeadlockDetected, LocknutError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from locknut.core.asking import AcquireState
    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.lock_request import LockRequest
    from locknut.core.wait_graph import Deadlock, Wait, WaitGraph

AFTER = 2.0
"""Seconds of waiting before a caller looks: most waits are over by then."""
AGAIN = 1.0
"""Seconds until the second look, which has to show the same."""
EVERY = 5.0
"""Seconds between two looks that show nothing."""
FRESH = 0.5
"""For how long what one caller has seen is good enough for the others of its client."""
LIMIT = 10.0
"""Seconds that a look may take; a caller that learns nothing waits on."""


async def waits_for(clients: Sequence[Client]) -> WaitGraph:
    """Who waits for whom in all of these together, the lines of this process included.

    What looks like a deadlock is looked at twice.
    """
    here = [forking.here(client) for client in clients]
    for client in here:
        client.ensure_open()
        validation.has(client.backend, Capability.WAITERS)
    graph = await _all_waits(here)
    return confirmed(graph, await _all_waits(here)) if graph.deadlocks else graph


async def _all_waits(clients: Iterable[Client]) -> WaitGraph:
    places: dict[str, list[LockInfo]] = {}
    for client in clients:
        place = place_of(client)
        if place not in places:
            places[place] = await inspecting.listing(client, None)
        places[place] = with_own_lines(client, places[place])
    return graph_of(places)


def place_of(client: Client) -> str:
    """What tells the locks of two clients apart: where they live, and their namespace."""
    namespace = client.prefix[:-1]
    return f"{client.place}, namespace {namespace!r}" if namespace else client.place


def with_own_lines(client: Client, found: Iterable[LockInfo]) -> list[LockInfo]:
    """Add what this process knows better: who has a hold that was handed over, and who waits."""
    with client.guard:
        lines = {
            client.bare(key): [(each.caller(), each.options.mode) for each in line.waiters]
            for key, line in client.lines.copy().items()
        }
        leases = [hold.lease() for hold in client.holds.copy().values()]
    ours = {(lease.name, lease._hold.raw): lease._caller() for lease in leases if lease is not None}
    return [_known_here(client, info, ours, lines.get(info.name, [])) for info in found]


def _known_here(
    client: Client,
    info: LockInfo,
    ours: dict[tuple[str, int], Caller | None],
    line: list[tuple[Caller | None, Mode]],
) -> LockInfo:
    holders = []
    for holder in info.holders:
        caller = None if holder.raw is None else ours.get((info.name, holder.raw))
        known = caller is not None and caller.party
        holders.append(_named(holder, caller) if caller is not None and known else holder)
    listed = {each.party for each in info.waiters}
    like_us = next((each for each in holders if _of_one_process(each, line)), Holder())
    waiters = [
        _named(Holder(like_us.host, like_us.pid, mode=mode, breaks=client.breaks), caller)
        for caller, mode in line
        if caller is not None and caller.party and caller.party not in listed
    ]
    return info._replace(holders=tuple(holders), waiters=(*info.waiters, *waiters))


def _named(holder: Holder, caller: Caller) -> Holder:
    return holder._replace(who=caller.who, party=caller.party)


def _of_one_process(holder: Holder, line: Iterable[tuple[Caller | None, Mode]]) -> bool:
    processes = {each.party.partition(".")[0] for each, _ in line if each is not None}
    return bool(holder.party) and holder.party.partition(".")[0] in processes


class Lookout:
    """One caller's watch for a deadlock in which it has to give way, while it waits."""

    __slots__ = ("_client", "_request", "_seen", "_state", "due")

    def __init__(self, client: Client, request: LockRequest, state: AcquireState):
        self._client = client
        self._request = request
        self._state = state
        self._seen: frozenset[Wait] = frozenset()
        """The circle that the last look showed."""
        self.due = client.runtime.now() + AFTER

    async def look(self) -> None:
        """If it is time, look; raise DeadlockDetected if this caller has to give way."""
        runtime = self._client.runtime
        if runtime.now() < self.due:
            return
        graph = await self._graph()
        found = self._ours(graph)
        circle = circle_of(graph, found)
        if found is not None and circle and circle == self._seen:
            raise self._gives_way(found)
        self._seen = circle
        self.due = runtime.now() + (AGAIN if circle else EVERY * (0.75 + runtime.random() / 2))

    async def _graph(self) -> WaitGraph:
        """As the engines tell it: here, and where else this caller holds something."""
        client, now = self._client, self._client.runtime.now()
        clients = {place_of(each): each for each in _clients_of(self._state.caller, client)}
        known = client.looked
        if known is not None and known[0] > now - FRESH and known[1] == frozenset(clients):
            return known[2]
        places: dict[str, list[LockInfo]] = {}
        for place, each in clients.items():
            with suppress(LocknutError):
                command = each.backend.inspect_all(each.prefix)
                until = min(self._state.limit, now + LIMIT)
                found = await client.runtime.finish(command, until)
                places[place] = [
                    callers.shown(info)._replace(name=each.bare(info.name)) for info in found
                ]
        graph = graph_of(places)
        client.looked = now, frozenset(clients), graph
        return graph

    def _ours(self, graph: WaitGraph) -> Deadlock | None:
        """The deadlock in which it is this caller that gives way, if it really has what it says."""
        caller = self._state.caller
        for each in graph.deadlocks:
            if each.victim is not None and each.victim.id == caller.party:
                blocking = [edge for edge in each.edges if edge.holder.id == caller.party]
                wanted = {edge.fence for edge in blocking} - {None}
                held = {lease._hold.raw * lease._client.fence_step for lease in caller.leases()}
                if wanted <= held and each.edges[0].lock == self._client.bare(self._request.key):
                    return each
        return None

    def _gives_way(self, deadlock: Deadlock) -> DeadlockDetected:
        message = (
            f"a deadlock, and this caller has to give way: {deadlock}; "
            "release what is held here and begin again, and take locks in the same order everywhere"
        )
        error = DeadlockDetected(message)
        error.cycle = deadlock.edges
        return error


def confirmed(first: WaitGraph, second: WaitGraph) -> WaitGraph:
    """The second look, without the deadlocks that were not there in the first."""
    before = {circle_of(first, each) for each in first.deadlocks}
    there = tuple(each for each in second.deadlocks if circle_of(second, each) in before)
    return second._replace(deadlocks=there, stuck=second.stuck if there else ())


def circle_of(graph: WaitGraph, deadlock: Deadlock | None) -> frozenset[Wait]:
    """All that makes it a deadlock: the waits of its members, with those in their way."""
    if deadlock is None:
        return frozenset()
    members = set(deadlock.members)
    return frozenset(wait for wait in graph.waits if wait.party in members)


def _clients_of(caller: Caller, client: Client) -> Iterator[Client]:
    """This one, and those through which the caller holds something, if they can be asked here."""
    yield client
    for lease in caller.leases():
        other = lease._client
        if (
            type(other.runtime) is type(client.runtime)
            and not other.runtime.elsewhere
            and not other.closed
            and Capability.WAITERS in other.backend.capabilities
        ):
            yield other
