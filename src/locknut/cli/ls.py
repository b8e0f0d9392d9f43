"""The verbs `ls` and `show`: how locks, holders and lines look, to people and as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut import Mode
from locknut.cli import arguments, target, titles
from locknut.cli.messages import Messenger, age, as_json, command, moment, plain, quoted, span, who

if TYPE_CHECKING:
    from locknut import Detail, Holder, LockInfo, Locks
    from locknut.cli.arguments import Options

_COLUMNS = ("NAME", "MODE", "HOLDER", "HELD", "TTL", "FENCE", "WAITING", "COMMAND")
_RIGHT = {"HELD", "TTL", "FENCE", "WAITING"}
_SHORTEST = 0.01
_CLEAR = "\x1b[H\x1b[2J"


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of(verb, argv)
    with target.locks(options) as locks:
        if verb == "ls":
            _list(locks, options)
        else:
            _show(locks.info(options.name), options, locks.place)
    return 0


def _list(locks: Locks, options: Options) -> None:
    clear = options.watch and not options.json and sys.stdout.isatty()
    while True:
        found = [
            info for info in locks.list(options.pattern) if info.waiters or not options.waiting
        ]
        facts = [facts_of(info, locks.place) for info in found] if options.json else []
        text = as_json(facts) if options.json else table(found)
        sys.stdout.write((_CLEAR if clear else "") + text + "\n")
        sys.stdout.flush()
        if not options.watch:
            if not found and not options.json:
                messenger = Messenger(quiet=options.quiet)
                messenger.say("none", f"{_nothing(options)} in {plain(locks.place)}")
            return
        time.sleep(max(options.every, _SHORTEST))


def _nothing(options: Options) -> str:
    """An empty list makes people wonder whether they look at the right place."""
    which = "" if options.pattern is None else f" like {quoted(options.pattern)}"
    return f"no lock{which} is {'' if options.waiting else 'held or '}waited for"


def _show(info: LockInfo, options: Options, place: str) -> None:
    text = as_json(facts_of(info, place)) if options.json else card(info, place)
    sys.stdout.write(text + "\n")


def table(found: Sequence[LockInfo]) -> str:
    """One row per holder; a name that is only waited for has a row without one."""
    rows = [_COLUMNS, *(row for info in found for row in _rows(info))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(_COLUMNS, row, widths, strict=True)
    padded = [
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, cell, width in cells
    ]
    return "  ".join(padded).rstrip()


def _rows(info: LockInfo) -> list[tuple[str, ...]]:
    waiting = str(len(info.waiters))
    if not info.holders:
        return [(plain(info.name), "-", "-", "-", "-", "-", waiting, "-")]
    rows: list[tuple[str, ...]] = []
    for number, holder in enumerate(info.holders):
        name, count = (plain(info.name), waiting) if number == 0 else ("", "")
        facts = (_mode(info, holder), who(holder), *_times(holder))
        rows.append((name, *facts, count, command(holder) or "-"))
    return rows


def _mode(info: LockInfo, holder: Holder) -> str:
    if holder.mode is Mode.PERMIT:
        limit = "" if info.permits is None else f"/{info.permits}"
        return f"slots {len(info.holders)}{limit}"
    mode: str = holder.mode.value
    return mode


def _times(holder: Holder) -> tuple[str, str, str]:
    left = "-" if holder.ttl_left is None else span(holder.ttl_left)
    return age(holder.since), left, "-" if holder.fence is None else str(holder.fence)


def card(info: LockInfo, place: str) -> str:
    """Everything known about one name."""
    free = "" if info.holders or info.waiters else " is free"
    lines = [f"{quoted(info.name)}{free} in {plain(place)}" + ("" if free else ":")]
    lines += [f"  held by {_sentence(info, holder)}" for holder in info.holders]
    for turn, waiter in enumerate(info.waiters, start=1):
        since = "" if waiter.since is None else f", waiting for {age(waiter.since)}"
        lines.append(f"  {turn}. {_named(waiter)}{since}, {waiter.mode.value}")
    if not info.holders and info.waiters:
        lines.insert(1, "  held by nobody at this moment")
    lines += [f"  {_dissent(each)}" for each in info.details if not each.agrees]
    return "\n".join(lines)


def _dissent(detail: Detail) -> str:
    """What a server says that does not agree with what the engine says."""
    known = ", ".join(f"held by {who(holder)}" for holder in detail.holders)
    return plain(f"but {detail.place}: {detail.problem or known or 'held by nobody'}")


def _sentence(info: LockInfo, holder: Holder) -> str:
    held, left, fence = _times(holder)
    parts = [_named(holder), _mode(info, holder)]
    parts += [f"held for {held} (since {moment(holder.since)})"] if holder.since is not None else []
    parts += [f"fence {fence}"] if fence != "-" else []
    parts += [f"ttl {left}"] if left != "-" else []
    return ", ".join(parts)


def _named(holder: Holder) -> str:
    title = command(holder)
    return f"{who(holder)} ({title})" if title else who(holder)


def facts_of(info: LockInfo, place: str) -> dict[str, object]:
    """The same as JSON: what scripts may rely on."""
    return {
        "lock": info.name,
        "place": place,
        "locked": info.locked,
        "permits": info.permits,
        "holders": [_facts(holder) for holder in info.holders],
        "waiters": [_facts(waiter) for waiter in info.waiters],
        "details": [
            {
                "place": detail.place,
                "agrees": detail.agrees,
                "holders": [_facts(holder) for holder in detail.holders],
                "problem": detail.problem,
            }
            for detail in info.details
        ],
    }


def _facts(holder: Holder) -> dict[str, object]:
    return {
        "owner": who(holder),
        "label": titles.split(holder.label)[0],
        "command": titles.split(holder.label)[1],
        "host": holder.host,
        "pid": holder.pid,
        "who": holder.who,
        "mode": holder.mode.value,
        "fence": holder.fence,
        "since": holder.since,
        "ttl_left": holder.ttl_left,
    }
