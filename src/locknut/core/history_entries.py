"""What history keeps of an event: a short text for the engine, and a value for people.

The text is a JSON object with the names of the value's fields, so that whoever reads it there with
other tools understands it, and so that later versions can add a field. It says how long ago the
event was when the text was written: with the engine's time of the writing that gives the time of
the event by the engine's clock, whatever the clock of its process says. It never has a claim's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from locknut.core.values import Event

OMITTED = "omitted"
"""The kind of an entry that stands for events which were not written."""
LONGEST = 300
"""Characters of a reason, a label or the name of a thread that are kept."""


class HistoryEntry(NamedTuple):
    """Something that happened to a lock, as the engine remembers it."""

    time: float
    """Seconds since the epoch, by the engine's clock."""
    kind: str
    """As of an `Event`; or `omitted`: the reason says how many of which kind were not written."""
    name: str = ""
    mode: str = "exclusive"
    """exclusive, shared or permit: a text, so that an entry can be written as JSON."""
    fence: int | None = None
    waited: float | None = None
    held: float | None = None
    reason: str = ""
    host: str = ""
    pid: int | None = None
    """The process that reported it: that of the holder or the waiter; of a break, that which broke
    it."""
    who: str = ""
    """The thread or task of that process."""
    label: str = ""
    """What the user calls that process."""
    id: str = ""
    """Of this entry alone: one that was written twice is shown once."""


class Reporter(NamedTuple):
    """Which process writes."""

    host: str
    pid: int
    label: str


class Noted(NamedTuple):
    """An event that is to be written."""

    id: str
    at: float
    """When it happened, on the runtime's clock."""
    event: Event

    def text(self, reporter: Reporter, now: float) -> str:
        """What the engine is given at this moment."""
        import json  # 3 ms, and few programs keep a history

        facts = {"id": self.id, "age": round(max(0.0, now - self.at), 6)}
        found = {**_facts(self.event), **reporter._asdict()}
        facts |= {key: _short(value) for key, value in found.items() if value not in (None, "")}
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def _facts(event: Event) -> dict[str, Any]:
    who, reason = event.holder, event.reason
    if event.kind == "timed_out" and who:  # it names the holder here, not the one that gave up
        who, reason = "", reason or f"{who} of this process has it"
    return {
        "kind": event.kind,
        "name": event.name,
        "mode": event.mode.value,
        "fence": event.fence,
        "waited": event.waited,
        "held": event.held,
        "reason": reason,
        "who": who,
    }


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    return value[: LONGEST - 3] + "..."


def omitted(counts: Mapping[str, int]) -> Event:
    """The event that stands for those that were left out."""
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return Event(OMITTED, "", "", reason=said)


def entries(written: Iterable[tuple[float, str]]) -> list[HistoryEntry]:
    """What was written, each entry once, in the order of time; what is not ours is passed over."""
    found: dict[tuple[str, int], HistoryEntry] = {}
    for at, text in written:
        entry = _entry(at, text)
        if entry is not None:
            process, _, number = entry.id.partition("-")
            place = process, int(number)
            found[place] = min(entry, found.get(place, entry), key=_time)
    return sorted(_in_order(found), key=_time)


def _time(entry: HistoryEntry) -> float:
    return entry.time


def _in_order(found: Mapping[tuple[str, int], HistoryEntry]) -> Iterator[HistoryEntry]:
    """The entries of each process in the order in which they happened.

    A writing that was under way for long makes its entries look too young, and never too old. So
    none is younger than what the same process noted after it.
    """
    following, latest = "", 0.0
    backwards: list[HistoryEntry] = []
    for process, number in sorted(found, reverse=True):
        entry = found[process, number]
        latest = min(latest, entry.time) if process == following else entry.time
        following = process
        backwards.append(entry._replace(time=latest))
    return reversed(backwards)


_ID = re.compile(r"[0-9a-f]+-[0-9]{1,18}")
_TEXTS: Sequence[str] = ("kind", "name", "mode", "reason", "host", "who", "label", "id")
_FAR = 1e12
"""Seconds that no time and no duration of ours comes to: nobody could show or add them."""
_NUMBERS: Mapping[str, float] = {"fence": 2.0**96, "waited": _FAR, "held": _FAR, "pid": 2.0**64}
"""How large each may be; what is no number is not below any."""


def _entry(at: float, text: str) -> HistoryEntry | None:
    import json  # as above

    try:
        found = json.loads(text)
        facts: dict[str, Any] = {key: str(found[key]) for key in _TEXTS if key in found}
        facts |= {
            key: found[key]
            for key in _NUMBERS
            if isinstance(found.get(key), int | float) and not isinstance(found[key], bool)
        }
        time = at - float(found["age"])
        small = all(abs(facts.get(key, 0)) < most for key, most in _NUMBERS.items())
        ours = small and abs(time) < _FAR and _ID.fullmatch(facts["id"])
        return HistoryEntry(time, **facts) if ours else None
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError, RecursionError):
        return None
