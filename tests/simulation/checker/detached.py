"""What was detached is there for whoever attaches it, until its time is over: a part of (d)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.simulation.checker.history import Event, Kind
from tests.simulation.checker.stories import Stories, Story
from tests.simulation.checker.verdict import Assumptions, Violation

GONE = "LeaseLost"
"""The note of an attach that was told that there is nothing to attach any more."""
ONE_TRY = 0.4
"""Seconds within which it was told so by its first question. Who asked again may have had the hold
itself, unheard of, until that ran out."""
SLACK = 0.05
"""Seconds before the end of its time from which on it need not be there: clocks differ."""


def detached_holds(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """(d) Nobody is told that a detached hold is gone while nobody else can have it."""
    tries: dict[str, list[Story]] = defaultdict(list)
    for story in stories:
        if story.called.by:
            tries[story.called.by].append(story)
    for before in stories:
        detached = before.ending
        if detached is None or detached.kind is not Kind.DETACHED or detached.until is None:
            continue
        of_it = tries[before.called.hold]
        for story in of_it:
            told = _told_gone(story)
            if told is None or told.t >= detached.until - SLACK:
                continue
            others = [each for each in of_it if each is not story and each.called.t <= told.t]
            if any(_may_have_it(other, story, stories, given) for other in others):
                continue
            if not stories.voided(given.ends_holds, story.name, detached.t, told.t):
                why = f"{story.name}: a detached hold was gone before its time"
                yield Violation("d", why, (detached, *story.events))


def _told_gone(story: Story) -> Event | None:
    """The answer to somebody who has never had it."""
    outcome = story.outcome
    if outcome is None or outcome.kind is not Kind.FAILED or outcome.note != GONE:
        return None
    return outcome if outcome.t - story.called.t < ONE_TRY else None


def _may_have_it(other: Story, story: Story, stories: Stories, given: Assumptions) -> bool:
    """Whether another one took it, or may have: what was given up has to be put back first."""
    if _told_gone(other) is not None:
        return False
    if other.got is not None or other.outcome is None or given.detached_again_within is None:
        return True
    there_again = other.outcome.t + given.detached_again_within
    return there_again > story.called.t or stories.asleep(
        other.called.who, other.called.t, story.called.t
    )
