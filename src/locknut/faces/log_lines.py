"""What a log record says: one line for each event, which a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core.durations import spell
from locknut.core.plain_text import plain

if TYPE_CHECKING:
    from locknut.core.values import Event
    from locknut.faces.hints import Way

_BEGINS = {
    "waiting": "waiting for %r on %s%s",
    "granted": "granted %r on %s%s",
    "handed_over": "handed over %r on %s%s",
    "released": "released %r on %s%s",
    "detached": "detached %r on %s%s",
    "failed": "failed to acquire %r on %s%s",
    "timed_out": "gave up %r on %s%s",
    "at_risk": "at risk: %r on %s%s",
    "skipped": "skipped %r on %s%s",
    "broken": "broke %r on %s%s",
    "abandoned": "abandoned %r on %s%s",
    "lost": "lost %r on %s%s",
}
"""One text for each kind, so that tools that group records by their text tell the kinds apart."""

_WHY_LOST = {
    "expired": "no renewal was confirmed before its ttl ran out",
    "taken": "the engine does not have it any more",
    "broken": "somebody broke it by force",
    "session": "the session with the engine ended",
    "max_hold": "it was held for max_hold",
    "exit": "the interpreter exits",
}
_TO_DO = {
    "lost": "somebody else may have the lock now: stop, and let the resource check the fence",
    "at_risk": "look at the engine, and check() before each step that cannot be undone",
    "abandoned": "release leases, or use them in a `with`",
    "broken": "its holder is notified, and may still be running",
}


def message(event: Event) -> str:
    """Return the text of a record: it takes the name, the engine and the rest."""
    return _BEGINS[event.kind]


def rest(event: Event, way: Way) -> str:
    """Return what there is to say besides the name and the engine."""
    said = "".join((_whose(event), _after(event), _fence(event)))
    ending = _ending(event, way)
    return f"{said}: {ending}" if ending else said


def _whose(event: Event) -> str:
    """Return which thread or task of this process the event is about."""
    if not event.holder or event.kind == "timed_out":
        return ""
    gets = event.kind in ("granted", "handed_over")
    return f"{' to' if gets else ', held by'} {plain(event.holder)}"


def _after(event: Event) -> str:
    if event.held is not None:
        return f" for {spell(event.held)}"
    return "" if event.waited is None else f" after {spell(event.waited)}"


def _fence(event: Event) -> str:
    return "" if event.fence is None else f", fence {event.fence}"


def _ending(event: Event, way: Way) -> str:
    """Return why it happened, and what to do about it."""
    parts = [_why(event)]
    if event.kind in _TO_DO:
        parts.append(_TO_DO[event.kind])
    elif event.kind == "timed_out" and not event.holder:
        parts.append(way.look(event.name))
    return "; ".join(part for part in parts if part)


def _why(event: Event) -> str:
    reason = plain(event.reason)
    kind, _, note = reason.partition(": ")
    if event.kind == "lost" and kind == "broken" and note:
        return f"{_WHY_LOST[kind]}: {note}"
    if event.kind == "lost" and event.reason in _WHY_LOST:
        return f"{reason} ({_WHY_LOST[event.reason]})"
    if event.kind == "abandoned":
        return "nobody refers to its lease any more"
    if event.kind == "timed_out" and event.holder:
        return f"{plain(event.holder)} of this process has it"
    return reason
