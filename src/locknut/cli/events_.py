"""The verb `events`: what happened to locks, one line for each event, to people and as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut.cli import arguments, target, titles
from locknut.cli.messages import Messenger, as_json, moment, plain, quoted, span

if TYPE_CHECKING:
    from locknut import HistoryEntry, Locks
    from locknut.cli.arguments import Options

EVERY = 1.0
"""Seconds between two looks of --follow."""
LATE = 120.0
"""Entries come in batches, and late when the engine was out of reach. Those that come later than
this are not noticed by --follow."""


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of(verb, argv)
    with target.locks(options) as locks:
        # First: what is written in between is printed, and once.
        known = locks.history(options.pattern, since=LATE) if options.follow else []
        found = locks.history(options.pattern, since=options.since)
        _print(found, locks.place, options)
        if options.follow:
            _follow(locks, options, {each.id for each in (*known, *found)})
        elif not found and not options.json:
            Messenger(quiet=options.quiet).say("none", _nothing(options, locks.place))
    return 0


def _follow(locks: Locks, options: Options, seen: set[str]) -> None:
    while True:
        time.sleep(EVERY)
        found = locks.history(options.pattern, since=LATE)
        _print([each for each in found if each.id not in seen], locks.place, options)
        seen = {each.id for each in found}


def _print(found: Sequence[HistoryEntry], place: str, options: Options) -> None:
    for entry in found:
        text = as_json(facts_of(entry, place)) if options.json else line(entry)
        sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _nothing(options: Options, place: str) -> str:
    """An empty list makes people wonder: nothing is kept unless a program asks for it."""
    which = "" if options.pattern is None else f" of locks like {quoted(options.pattern)}"
    when = "" if options.since is None else f" of the last {span(options.since)}"
    return f"no event{which}{when} is kept in {plain(place)}; programs keep them with history=1000"


def line(entry: HistoryEntry) -> str:
    """Return what happened, when, to which lock, who reported it, and why."""
    parts = [f"{moment(entry.time)} {plain(entry.kind)}"]
    if entry.name:
        parts[0] += f" {quoted(entry.name)}"
    parts += [f"fence {entry.fence}"] if entry.fence is not None else []
    parts.append(_by(entry))
    parts += [f"waited {span(entry.waited)}"] if entry.waited is not None else []
    parts += [f"held {span(entry.held)}"] if entry.held is not None else []
    said = ", ".join(part for part in parts if part)
    return f"{said}: {plain(entry.reason)}" if entry.reason else said


def _by(entry: HistoryEntry) -> str:
    """Which process reported it; its thread or task, where that says something."""
    place = entry.host if entry.pid is None else f"{entry.host}:{entry.pid}"
    name = titles.split(entry.label)[0]
    who = "@".join(part for part in (name, place) if part)
    return plain(f"{who} ({entry.who})" if who and entry.who else who or entry.who)


def facts_of(entry: HistoryEntry, place: str) -> dict[str, object]:
    """The same as JSON: what scripts may rely on."""
    facts = {**entry._asdict(), "lock": entry.name, "place": place}
    facts["label"], facts["command"] = titles.split(entry.label)
    del facts["name"]
    return facts
