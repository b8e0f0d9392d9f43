"""The verb `deadlocks`: who waits in a circle, and what an operator can do about it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut.cli import arguments, target, titles
from locknut.cli.break_hint import break_command
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import Messenger, as_json, plain, quoted

if TYPE_CHECKING:
    from locknut import Locks
    from locknut.cli.arguments import Options
    from locknut.waits import Deadlock, Party, WaitGraph

_SHORTEST = 0.01


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code: 1 if there is a deadlock."""
    options = arguments.of("deadlocks", argv)
    messenger = Messenger(quiet=options.quiet)
    with target.locks(options) as locks:
        graph = locks.waits_for()
        _print(graph, locks, options, messenger)
        while options.watch:
            time.sleep(max(options.every, _SHORTEST))
            before, graph = graph, locks.waits_for()
            if options.json or graph.deadlocks != before.deadlocks:
                _print(graph, locks, options, messenger)
    return Exit.BROKEN if graph.deadlocks else Exit.OK


def _print(graph: WaitGraph, locks: Locks, options: Options, messenger: Messenger) -> None:
    if options.json:
        sys.stdout.write(as_json(graph.as_dict()) + "\n")
    elif graph.deadlocks:
        sys.stdout.write(report(graph, options) + "\n")
    else:
        count = len(graph.waits)
        waits = "nobody waits" if not count else f"{count} wait{'s' * (count == 1)}"
        messenger.say("none", f"no deadlock ({waits}) in {plain(locks.place)}")
    sys.stdout.flush()


def report(graph: WaitGraph, options: Options) -> str:
    """Every deadlock, one wait per line, and how it can be ended."""
    lines: list[str] = []
    for number, deadlock in enumerate(graph.deadlocks, start=1):
        lines.append(f"deadlock {number} of {len(graph.deadlocks)}:")
        lines += [f"  {each}" for each in _waits(deadlock)]
        lines.append(f"  {_way_out(deadlock, options)}")
    if graph.stuck:
        count = len(graph.stuck)
        lines.append(f"{count} more {'wait' if count > 1 else 'waits'} for this to end")
    return "\n".join(lines)


def _waits(deadlock: Deadlock) -> list[str]:
    return [
        f"{named(edge.waiter)} waits for {quoted(edge.lock)}, held by {named(edge.holder)}"
        + ("" if edge.fence is None else f", fence {edge.fence}")
        for edge in deadlock.edges
    ]


def _way_out(deadlock: Deadlock, options: Options) -> str:
    if deadlock.victim is not None:
        return f"{named(deadlock.victim)} gives way by itself within seconds"
    held = next((edge for edge in deadlock.edges if edge.fence is not None), None)
    if held is None or held.fence is None:
        return "nobody gives way: stop one of them"
    command, note = break_command(held.lock, held.fence, options)
    return f"nobody gives way: stop one of them, or break a hold{note}: {plain(command)}"


def named(party: Party) -> str:
    """deploy@web-3:4121, thread MainThread."""
    name = titles.split(party.label)[0]
    place = party.host if party.pid is None else f"{party.host}:{party.pid}"
    known = "@".join(part for part in (name, place) if part)
    return plain(", ".join(part for part in (known, party.who) if part)) or "somebody"
