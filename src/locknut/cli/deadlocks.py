"""The verb `deadlocks`: who waits in a circle, and what an operator can do about it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from locknut import waits_for
from locknut.cli import arguments, several_engines, titles
from locknut.cli.break_hint import break_command
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import Messenger, as_json, plain, quoted

if TYPE_CHECKING:
    from locknut.cli.arguments import Options
    from locknut.cli.several_engines import NamedEngine
    from locknut.waits import Deadlock, Edge, Party, WaitGraph

_SHORTEST = 0.01


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code: 1 if there is a deadlock."""
    options = arguments.of("deadlocks", argv)
    messenger = Messenger(quiet=options.quiet)
    with ExitStack() as stack:
        engines = list(several_engines.engines(options))
        locks = [stack.enter_context(each.locks) for each in engines]
        graph = waits_for(*locks)
        _print(graph, engines, options, messenger)
        while options.watch:
            time.sleep(max(options.every, _SHORTEST))
            before, graph = graph, waits_for(*locks)
            if options.json or graph.deadlocks != before.deadlocks:
                _print(graph, engines, options, messenger)
    return Exit.BROKEN if graph.deadlocks else Exit.OK


def _print(
    graph: WaitGraph, engines: Sequence[NamedEngine], options: Options, messenger: Messenger
) -> None:
    if options.json:
        sys.stdout.write(as_json(graph.as_dict()) + "\n")
    elif graph.deadlocks:
        sys.stdout.write(report(graph, engines) + "\n")
    else:
        count = len(graph.waits)
        waits = "nobody waits" if not count else f"{count} wait{'s' * (count == 1)}"
        places = ", ".join(plain(each.locks.place) for each in engines)
        messenger.say("none", f"no deadlock ({waits}) in {places}")
    sys.stdout.flush()


def report(graph: WaitGraph, engines: Sequence[NamedEngine]) -> str:
    """Every deadlock, one wait per line, and how it can be ended."""
    lines: list[str] = []
    for number, deadlock in enumerate(graph.deadlocks, start=1):
        lines.append(f"deadlock {number} of {len(graph.deadlocks)}:")
        lines += [f"  {_wait(edge, several=len(engines) > 1)}" for edge in deadlock.edges]
        lines.append(f"  {_way_out(deadlock, engines)}")
    if graph.stuck:
        count = len(graph.stuck)
        lines.append(f"{count} more {'wait' if count > 1 else 'waits'} for this to end")
    return "\n".join(lines)


def _wait(edge: Edge, *, several: bool) -> str:
    """Where the lock is, too, if that could be more than one place."""
    place = f" in {plain(edge.place)}" if several else ""
    fence = "" if edge.fence is None else f", fence {edge.fence}"
    return (
        f"{named(edge.waiter)} waits for {quoted(edge.lock)}{place}, "
        f"held by {named(edge.holder)}{fence}"
    )


def _way_out(deadlock: Deadlock, engines: Sequence[NamedEngine]) -> str:
    if deadlock.victim is not None:
        return f"{named(deadlock.victim)} gives way by itself within seconds"
    held = next((edge for edge in deadlock.edges if edge.fence is not None), None)
    if held is None or held.fence is None:
        return "nobody gives way: stop one of them"
    there = next(each for each in engines if _is_at(each, held.place))
    place = there.locks.place if len(engines) > 1 else ""
    command, note = break_command(held.lock, held.fence, there.options, place)
    return f"nobody gives way: stop one of them, or break a hold{note}: {plain(command)}"


def _is_at(engine: NamedEngine, place: str) -> bool:
    """Whether a wait at this place is for one of its locks: a graph tells namespaces apart too."""
    locks = engine.locks
    return place in {locks.place, f"{locks.place}, namespace {locks.namespace!r}"}


def named(party: Party) -> str:
    """deploy@web-3:4121, thread MainThread."""
    name = titles.split(party.label)[0]
    place = party.host if party.pid is None else f"{party.host}:{party.pid}"
    known = "@".join(part for part in (name, place) if part)
    return plain(", ".join(part for part in (known, party.who) if part)) or "somebody"
