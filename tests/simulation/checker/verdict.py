"""What a rule is given and what it says: an engine's assumptions, and broken promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tests.simulation.checker.history import Event, Kind, timeline
from tests.simulation.checker.stories import Stories


class Violation(NamedTuple):
    """One broken promise, with the events that show it."""

    rule: str
    text: str
    events: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}\n{timeline(self.events)}"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Under which conditions an engine's promises hold, and how quick it has to be."""

    exclusion_void_after: frozenset[Kind] = frozenset({Kind.BROKEN})
    """What ends the protection of a hold given before it: a restart without data, say."""
    holds_void_after: frozenset[Kind] | None = None
    """What may end a hold, or bring one back, in the engine; None: what ends the protection."""
    minority: int = 0
    """So many of those, on as many nodes, may not end a hold: a majority has it still."""
    fences_void_after: frozenset[Kind] = frozenset()
    """What a later fence need not be above the earlier ones after."""
    old_holds_come_back: bool = False
    """Whether an engine that forgets may have its holds of some time ago, with their old numbers:
    a co-owner or whoever attaches then goes on with such a number."""
    told_within: float | None = None
    """How late the notice of a loss may be while nobody is faulty; None: not judged."""
    free_within: float | None = None
    """How long a name may be free and wanted while nobody is faulty; None: not judged."""
    idle_within: float | None = None
    """How long nobody may believe to hold a wanted name: the ttl of the dead comes on top."""
    fifo: bool = False
    """Whether `fair` claims are served in the order in which they began to wait."""
    fifo_amid_faults: bool = False
    """Whether they are also while faults are at work: where those reach no message and no line."""
    detached_again_within: float | None = None
    """How soon a detached hold is there again after an attach was given up; None: not judged."""

    @property
    def ends_holds(self) -> frozenset[Kind]:
        kinds = self.holds_void_after
        return self.exclusion_void_after if kinds is None else kinds


Rule = Callable[[Stories, Assumptions], Iterable[Violation]]
