"""Decides whether a history is one that Locknut promises; each rule is a function of its own.

    (a) exclusion   never two valid exclusive holds, too many permits, or a writer beside anybody
    (b) fences      unique, and greater for whoever asked after another had been given his
    (c) resource    no step with an older fence after a newer one entered; no lost update
    (d) loss        by the holder's clock, told in time, never falsely, never taken back; and what
                    was detached is there for whoever attaches it
    (e) ownership   nobody's hold was released or renewed by another claim
    (f) progress    never free and wanted for long while nobody is faulty; first come, first served
    (g) leftovers   nothing behind after the last event

What an engine may assume is data (`Assumptions`), not code.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.simulation.checker.detached import detached_holds
from tests.simulation.checker.history import Event
from tests.simulation.checker.progress import leftovers, progress, turns
from tests.simulation.checker.safety import exclusion, fences, loss, ownership, resource
from tests.simulation.checker.stories import Stories
from tests.simulation.checker.verdict import Assumptions, Rule, Violation

__all__ = ["RULES", "Assumptions", "Violation", "check"]

RULES: tuple[Rule, ...] = (
    exclusion,
    fences,
    resource,
    loss,
    detached_holds,
    ownership,
    progress,
    turns,
    leftovers,
)


def check(history: Iterable[Event], assumptions: Assumptions | None = None) -> list[Violation]:
    """Every broken promise in the history; empty when all is well."""
    stories = Stories(history)
    given = assumptions or Assumptions()
    return [violation for rule in RULES for violation in rule(stories, given)]
