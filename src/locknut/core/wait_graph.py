"""Who waits for whom over all locks, as values: what `waits_for` returns.

`wait_circles` works it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from locknut.core.plain_text import plain
from locknut.core.values import Mode


class Party(NamedTuple):
    """A thread or task that holds locks or waits for one."""

    id: str
    """Never that of another one; empty if it is not known."""
    host: str = ""
    pid: int | None = None
    who: str = ""
    """The thread or task, for people."""
    label: str = ""

    def __str__(self) -> str:
        place = f"{self.host}:{self.pid}" if self.pid is not None else self.host
        name = f"{self.label} ({self.who})" if self.label and self.who else self.label or self.who
        return plain(f"{name} at {place}" if name and place else name or place) or "somebody"


class Blocker(NamedTuple):
    """One that is in a waiter's way."""

    party: Party
    mode: Mode
    fence: int | None = None
    """Of its hold; None where it does not hold the lock, or the engine does not tell."""
    ahead: bool = False
    """True: it does not hold the lock, but stands before the waiter in the line."""


class Wait(NamedTuple):
    """One party that waits for one lock."""

    party: Party
    lock: str
    mode: Mode
    blockers: tuple[Blocker, ...]
    enough: int
    """How many of the blockers have to leave before it can enter."""
    place: str = ""
    """Where the lock lives."""
    breaks: bool = False
    """Whether this wait can end by DeadlockDetected: `connect(..., deadlocks="raise")`."""


class Edge(NamedTuple):
    """A waiter and one that it waits for."""

    waiter: Party
    holder: Party
    lock: str
    mode: Mode
    """How the waiter wants the lock."""
    fence: int | None
    """Of the hold that is in its way."""
    place: str = ""

    def __str__(self) -> str:
        fence = "" if self.fence is None else f" (fence {self.fence})"
        return f"{self.waiter} waits for {self.lock!r}, which {self.holder} has{fence}"


class Deadlock(NamedTuple):
    """Waits in a circle: each party waits for the next one, and the last for the first."""

    edges: tuple[Edge, ...]
    victim: Party | None
    """The party that gets DeadlockDetected, the same for everybody who looks; None if none of them
    asked for it."""
    members: tuple[Party, ...] = ()
    """All that wait for each other: where circles cross, more than the one circle in `edges`."""

    @property
    def locks(self) -> tuple[str, ...]:
        """The names of the locks, in the same order."""
        return tuple(each.lock for each in self.edges)

    def __str__(self) -> str:
        return "; ".join(map(str, self.edges))


class WaitGraph(NamedTuple):
    """All waits that were seen, and the deadlocks among them."""

    waits: tuple[Wait, ...] = ()
    deadlocks: tuple[Deadlock, ...] = ()
    stuck: tuple[Party, ...] = ()
    """Those that are not part of a deadlock, but wait for one to end."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Each waiter with each that it waits for."""
        return tuple(edge for wait in self.waits for edge in edges_of(wait))

    def as_dict(self) -> dict[str, Any]:
        """The same in words and numbers, for JSON."""
        return {
            "waits": [
                {
                    "waiter": each.party._asdict(),
                    "lock": each.lock,
                    "place": each.place,
                    "mode": each.mode.value,
                    "enough": each.enough,
                    "breaks": each.breaks,
                    "blockers": [
                        {
                            "holder": one.party._asdict(),
                            "mode": one.mode.value,
                            "fence": one.fence,
                            "ahead": one.ahead,
                        }
                        for one in each.blockers
                    ],
                }
                for each in self.waits
            ],
            "deadlocks": [
                {
                    "victim": None if each.victim is None else each.victim._asdict(),
                    "members": [one._asdict() for one in each.members],
                    "edges": [
                        edge._asdict()
                        | {
                            "waiter": edge.waiter._asdict(),
                            "holder": edge.holder._asdict(),
                            "mode": edge.mode.value,
                        }
                        for edge in each.edges
                    ],
                }
                for each in self.deadlocks
            ],
            "stuck": [each._asdict() for each in self.stuck],
        }


def edges_of(wait: Wait) -> Iterator[Edge]:
    for one in wait.blockers:
        yield Edge(wait.party, one.party, wait.lock, wait.mode, one.fence, wait.place)
