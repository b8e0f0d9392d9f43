"""What other parts of Locknut know of a place, as an observer shows it: one seam for each.

Each seam is a function that is given the Locks. A part that is not there, or that this engine
cannot have, adds nothing; one that fails says so in a concern of its own and stops nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from locknut import Capability, HistoryEntry, LockInfo, Locks
from locknut.cli.messages import plain
from locknut.core.wait_circles import graph_of
from locknut.errors import LocknutError, Unsupported
from locknut.observer.earlier_events import BACK, Earlier, earlier
from locknut.observer.sightings import Concern, Weight


class Member(NamedTuple):
    """One of those that wait for each other in a deadlock."""

    who: str
    lock: str
    """What it waits for."""
    fence: int | None
    """Of the hold that is in its way."""


Cycle = tuple[Member, ...]


def cycles_of(locks: Locks) -> Iterator[Cycle]:
    """The circles of the wait-for graph."""
    for each in locks.waits_for().deadlocks:
        yield tuple(Member(str(edge.waiter), edge.lock, edge.fence) for edge in each.edges)


def checkup_of(locks: Locks) -> Iterator[Concern]:
    """What the doctor has against this engine."""
    weights = {"FAIL": Weight.TROUBLE, "WARN": Weight.WARNING, "UNKNOWN": Weight.NOTE}
    for each in locks.doctor():
        if each.severity.name in weights:
            yield Concern(weights[each.severity.name], each.code, each.found, each.advice)


def history_of(locks: Locks) -> Iterable[HistoryEntry]:
    """What the engine remembers, where it does."""
    return locks.history(since=BACK) if Capability.HISTORY in locks.capabilities else ()


def news_of(locks: Locks, back: float) -> Iterable[HistoryEntry]:
    """The same of the last seconds."""
    return locks.history(since=back) if Capability.HISTORY in locks.capabilities else ()


class Seams(NamedTuple):
    """What is asked of others."""

    cycles: Callable[[Locks], Iterable[Cycle]] = cycles_of
    checkup: Callable[[Locks], Iterable[Concern]] = checkup_of
    history: Callable[[Locks], Iterable[HistoryEntry]] = history_of
    news: Callable[[Locks, float], Iterable[HistoryEntry]] = news_of


def may_be_a_deadlock(lines: Sequence[LockInfo]) -> bool:
    """Whether those who wait for these locks wait for each other, by this listing alone."""
    return bool(graph_of({"": lines}).deadlocks)


def ours_are_among(lines: Iterable[LockInfo]) -> bool:
    """Whether somebody of this process may hold or wait."""
    own = os.getpid()
    return any(each.pid == own for info in lines for each in (*info.holders, *info.waiters))


def deadlocks(seams: Seams, locks: Locks) -> tuple[list[Cycle], list[Concern]]:
    """The circles of those that wait for each other, or a concern if that is not known."""
    try:
        cycles = list(seams.cycles(locks))
    except Unsupported:
        return [], []
    except LocknutError as error:
        unknown = "it is not known who waits for whom"
        return [], [Concern(Weight.NOTE, "deadlock", unknown, str(error))]
    return cycles, []


def concern_of(cycle: Cycle) -> Concern:
    names = " -> ".join(plain(each.lock) for each in (*cycle, cycle[0]))
    members = ", ".join(f"{each.who} waits for {plain(each.lock)}" for each in cycle)
    title = f"is in a deadlock of {len(cycle)}: {names}"
    return Concern(Weight.TROUBLE, "deadlock", title, members, cycle[0].lock)


def checkup(seams: Seams, locks: Locks) -> Sequence[Concern]:
    """What the doctor says of the engine."""
    try:
        return tuple(seams.checkup(locks))
    except LocknutError as error:
        return (Concern(Weight.NOTE, "doctor", "The checks could not be made", str(error)),)


def news(seams: Seams, locks: Locks, back: float) -> Sequence[HistoryEntry] | None:
    """What was written in the last seconds; None if the engine does not tell."""
    try:
        return tuple(seams.news(locks, back))
    except (LocknutError, OSError):
        return None


def past(seams: Seams, locks: Locks, before: float) -> tuple[Earlier, list[Concern]]:
    """What happened before this moment, or a concern if the engine does not tell."""
    try:
        return earlier(seams.history(locks), before), []
    except (LocknutError, OSError) as error:
        unread = "what happened before cannot be read"
        return Earlier(), [Concern(Weight.NOTE, "history", unread, str(error))]
