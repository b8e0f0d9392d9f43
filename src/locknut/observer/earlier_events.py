"""What the engine's history tells of the time before an observer began: events, holds and waits.

An observer sees for itself from then on, so nothing of the history counts that is later. A hold is
put together from what was written about its fence; of one whose grant is not kept any more, only
its end is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from locknut import HistoryEntry, Holder, Mode
from locknut.cli.messages import who
from locknut.observer.sightings import Ending, Happening, Span

BACK: Final = 24 * 3600.0
"""Seconds that are looked back: a loss stays on the first page for as long."""
MOST_EVENTS: Final = 2000
MOST_ENDINGS: Final = 200
SHORTEST_WAIT: Final = 0.05
"""Seconds: who was let in sooner did not stand in a line."""
_ENDINGS: Final = {
    "released": Ending.RELEASED,
    "abandoned": Ending.RELEASED,
    "lost": Ending.LOST,
    "broken": Ending.BROKEN,
}


class Earlier(NamedTuple):
    """Each in the order of time."""

    happenings: tuple[Happening, ...] = ()
    holds: Mapping[str, tuple[Span, ...]] = {}
    waits: Mapping[str, tuple[Span, ...]] = {}
    bad_endings: tuple[Span, ...] = ()


def earlier(entries: Iterable[HistoryEntry], before: float) -> Earlier:
    """What they tell of the time until then."""
    found = [each for each in entries if each.time < before]
    holds, waits = _holds(found), [span for each in found for span in _wait(each)]
    return Earlier(
        tuple(map(_happening, found[-MOST_EVENTS:])),
        _by_name(holds),
        _by_name(waits),
        tuple([each for each in holds if each.ending.bad][-MOST_ENDINGS:]),
    )


def _happening(entry: HistoryEntry) -> Happening:
    detail = entry.reason
    if not detail and entry.held is not None:
        detail = f"after {entry.held:.1f} s"
    elif not detail and entry.waited is not None and entry.waited >= SHORTEST_WAIT:
        detail = f"waited {entry.waited:.1f} s"
    by = who(reporter(entry)) if entry.name else ""  # what was left out has no name
    return Happening(entry.time, entry.kind, entry.name, by, entry.fence, detail)


def reporter(entry: HistoryEntry) -> Holder:
    """The process that wrote it, with the fence that it is about."""
    mode = next((each for each in Mode if each.value == entry.mode), Mode.EXCLUSIVE)
    return Holder(
        entry.host, entry.pid, entry.who, entry.label, mode, entry.fence, entry.time, fence_step=1
    )


def _holds(entries: Iterable[HistoryEntry]) -> list[Span]:
    """Those that are over. Of a break and the loss that follows, the first tells how it ended."""
    open_holds: dict[tuple[str, int], Span] = {}
    over: dict[tuple[str, int], Span] = {}
    for each in entries:
        if each.fence is None:
            continue
        key = (each.name, each.fence)
        ending = _ENDINGS.get(each.kind)
        if each.kind == "granted":
            open_holds[key] = Span(each.name, reporter(each), each.time)
        elif ending is not None and key not in over:
            over[key] = ended(each, ending, open_holds.pop(key, None))
    return list(over.values())


def ended(entry: HistoryEntry, ending: Ending, known: Span | None = None) -> Span:
    """The hold that an entry tells the end of."""
    if known is None:  # whoever breaks a lock was not its holder
        known_by = reporter(entry)
        stranger = Holder(raw=entry.fence, fence_step=1)
        holder = stranger if ending is Ending.BROKEN else known_by
        known = Span(entry.name, holder, entry.time - (entry.held or 0.0))
    until = max(known.since, entry.time)
    return known._replace(until=until, ending=ending, note=entry.reason)


def _wait(entry: HistoryEntry) -> Iterable[Span]:
    if entry.waited is None or entry.waited < SHORTEST_WAIT:
        return
    if entry.kind in {"granted", "timed_out"}:
        ending = Ending.GRANTED if entry.kind == "granted" else Ending.LEFT
        since = entry.time - entry.waited
        yield Span(entry.name, reporter(entry), since, entry.time, ending)


def _by_name(spans: Iterable[Span]) -> Mapping[str, tuple[Span, ...]]:
    found: dict[str, list[Span]] = {}
    for each in spans:
        found.setdefault(each.name, []).append(each)
    return {name: tuple(each) for name, each in found.items()}
