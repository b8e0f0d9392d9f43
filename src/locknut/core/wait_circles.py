"""Which waits there are, which of them can never end, and who has to give way. Pure.

A waiter waits for some of those in its way to leave: for all holders of a lock, for all writers
where it wants to read, for as many holders of a semaphore as keep it out. From that follows who can
go on:

1. Whoever waits for nothing goes on, and some day releases what it holds. So does somebody without
   an identity, of whom nothing is known.
2. A waiter goes on if enough of those in its way go on.
3. Nobody else does: each of the others waits, in the end, for a circle of waits. That circle is a
   deadlock; those that wait for it from outside are stuck, and not part of it.

A reader that is kept out though only readers hold waits for the writer before it in the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from locknut.core.values import Holder, LockInfo, Mode
from locknut.core.wait_graph import Blocker, Deadlock, Edge, Party, Wait, WaitGraph, edges_of


def waits_in(info: LockInfo, place: str = "") -> Iterator[Wait]:
    """Yield the waits for one name: a lock and a semaphore of one name have nothing in common.

    Those who want the same have the same blockers in their way, one tuple for all of them: of each
    there may be thousands.
    """
    held = {
        permits: [each for each in info.holders if (each.mode is Mode.PERMIT) is permits]
        for permits in (False, True)
    }
    known: dict[tuple[Mode, str | None], tuple[Blocker, ...]] = {}
    writer: Holder | None = None
    """The last one before this waiter in the line."""
    for waiter in info.waiters:
        holders, kind = held[waiter.mode is Mode.PERMIT], (waiter.mode, waiter.owner)
        if kind not in known:
            blockers = _in_the_way(waiter, holders)
            known[kind] = tuple(Blocker(party_of(one), one.mode, one.fence) for one in blockers)
        shown = known[kind]
        if not shown and holders and waiter.mode is Mode.SHARED and writer is not None:
            shown = (Blocker(party_of(writer), Mode.EXCLUSIVE, ahead=True),)
        enough = len(shown)
        if waiter.mode is Mode.PERMIT:
            enough += 1 - (info.permits or len(holders))
        elif waiter.mode is Mode.EXCLUSIVE:
            writer = waiter
        if not shown or enough < 1:
            continue  # it is about to enter
        yield Wait(party_of(waiter), info.name, waiter.mode, shown, enough, place, waiter.breaks)


def _in_the_way(waiter: Holder, holders: list[Holder]) -> list[Holder]:
    """The holders that have to leave before this waiter can enter; of permits, some of them."""
    if waiter.mode is Mode.PERMIT:
        return holders
    if waiter.mode is Mode.SHARED:
        return [each for each in holders if each.mode is Mode.EXCLUSIVE]
    if waiter.owner is not None:
        return [each for each in holders if each.owner != waiter.owner]
    return holders


def party_of(holder: Holder) -> Party:
    return Party(holder.party, holder.host, holder.pid, holder.who, holder.label)


def graph_of(places: Mapping[str, Iterable[LockInfo]]) -> WaitGraph:
    """The waits and the deadlocks, from what the engines say of the locks in each place."""
    infos = {place: list(found) for place, found in places.items()}
    waits = tuple(
        wait for place, found in infos.items() for info in found for wait in waits_in(info, place)
    )
    doomed = without_end(waits)
    if not doomed:
        return WaitGraph(waits)
    seen = _places_of(infos)
    holders = {each.party for found in infos.values() for info in found for each in info.holders}
    circles = _circles(waits, doomed)
    able = {party: places for party, places in seen.items() if party in holders}
    deadlocks = tuple(_deadlock(circle, waits, able) for circle in circles)
    inside = {party for circle in circles for party in circle}
    known = {wait.party.id: wait.party for wait in waits}
    stuck = tuple(known[party] for party in sorted(doomed - inside))
    return WaitGraph(waits, deadlocks, stuck)


def without_end(waits: Iterable[Wait]) -> set[str]:
    """The identities of those that can never go on.

    Somebody with several waits goes on with any of them: a thread waits for one thing at a time, so
    the others are left over from before.
    """
    found = [wait for wait in waits if wait.party.id]
    stays = {wait.party.id for wait in found}
    lines: dict[int, _Line] = {}
    for wait in found:
        lines.setdefault(id(wait.blockers), _Line()).waits.append(wait)
    blocked_by: dict[str, list[_Line]] = {}
    free: list[str] = []
    for line in lines.values():
        line.waits.sort(key=lambda wait: -wait.enough)
        for one in line.waits[0].blockers:
            if one.party.id in stays:
                blocked_by.setdefault(one.party.id, []).append(line)
            else:
                line.gone += 1
        free += line.let_in()
    while free:  # each goes on once, and lets others go on
        party = free.pop()
        if party in stays:
            stays.remove(party)
            for line in blocked_by.get(party, ()):
                line.gone += 1
                free += line.let_in()
    return stays


class _Line:
    """The waits that have the same blockers in their way."""

    __slots__ = ("gone", "waits")

    def __init__(self) -> None:
        self.waits: list[Wait] = []
        """The one that needs the fewest of them to leave comes last."""
        self.gone = 0
        """How many of the blockers go on."""

    def let_in(self) -> Iterator[str]:
        while self.waits and self.waits[-1].enough <= self.gone:
            yield self.waits.pop().party.id


def _circles(waits: Iterable[Wait], doomed: set[str]) -> list[list[str]]:
    """The sets of parties that wait for each other and, in the end, for nobody else: in each of
    them somebody has to give way.
    """
    follows: dict[str, set[str]] = {party: set() for party in doomed}
    for wait in waits:
        if wait.party.id in doomed:
            follows[wait.party.id] |= {one.party.id for one in wait.blockers} & doomed
    reach = {party: _reachable(party, follows) for party in doomed}
    found: list[list[str]] = []
    for party in sorted(doomed):
        if all(party in reach[other] for other in reach[party]):  # nobody leads out of it
            circle = sorted(reach[party])
            if circle not in found:
                found.append(circle)
    return found


def _reachable(start: str, follows: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = list(follows[start])
    while left:
        party = left.pop()
        if party not in seen:
            seen.add(party)
            left += follows[party]
    return seen


def _places_of(infos: Mapping[str, Iterable[LockInfo]]) -> dict[str, set[str]]:
    """In which places each party holds something or waits: those it can look at itself."""
    seen: dict[str, set[str]] = {}
    for place, found in infos.items():
        for info in found:
            for each in (*info.holders, *info.waiters):
                seen.setdefault(each.party, set()).add(place)
    return seen


def _deadlock(
    circle: Sequence[str], waits: Iterable[Wait], looks: Mapping[str, set[str]]
) -> Deadlock:
    """The youngest hold decides who gives way, because the least work is lost with it. Only what
    engines store is compared, so everybody comes to the same party.

    A party can see the whole only if all of it lies in places that it uses itself, and looks only
    if it holds something: a writer that keeps readers out by its place in the line may not.
    """
    edges: dict[str, list[Edge]] = {}
    breaks: set[str] = set()
    members: dict[str, Party] = {}
    for wait in waits:
        if wait.party.id in circle:
            members[wait.party.id] = wait.party
            inside = [edge for edge in edges_of(wait) if edge.holder.id in circle]
            edges.setdefault(wait.party.id, []).extend(inside)
            breaks |= {wait.party.id} if wait.breaks else set()
    places = {edge.place for each in edges.values() for edge in each}
    youngest = dict.fromkeys(circle, (-1, ""))
    for edge in (edge for each in edges.values() for edge in each):
        youngest[edge.holder.id] = max(youngest[edge.holder.id], (edge.fence or 0, edge.lock))
    in_turn = sorted(circle, key=lambda party: (youngest[party], party), reverse=True)
    able = [party for party in in_turn if party in breaks and places <= looks.get(party, set())]
    victim = able[0] if able else None
    shown = _round_trip(victim or in_turn[0], edges)
    everybody = tuple(members[party] for party in circle)
    return Deadlock(shown, None if victim is None else shown[0].waiter, everybody)


def _round_trip(start: str, edges: Mapping[str, Sequence[Edge]]) -> tuple[Edge, ...]:
    """A shortest way from this party back to itself."""
    ways: list[tuple[Edge, ...]] = [(edge,) for edge in edges[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        last = way[-1].holder.id
        if last == start:
            return way
        if last not in seen:
            seen.add(last)
            ways += [(*way, edge) for edge in edges[last]]
    raise AssertionError(start)  # every member of a circle leads back to itself
