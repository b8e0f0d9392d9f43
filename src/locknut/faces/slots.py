"""Which slot a start counts for, until when it may start, and how long it is remembered.

A slot is named after the time that it is scheduled for, never after the moment at which a host
comes. With `at` that time is given. With `per` it is the last multiple of `per`, counted in UTC
from 1970; a start shortly before it already counts for it, so that a clock which is a little behind
agrees with the others, and so does a timer that fires early. This is the only place where the clock
on the wall decides anything, and docs/decisions/0025 says how wrong it may be.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Final, NamedTuple

from locknut.core import validation
from locknut.core.durations import spell
from locknut.errors import ConfigurationError

At = datetime | float | str
"""A scheduled time: a datetime, seconds since 1970, or a text in ISO 8601."""

PER_OF_AT: Final = 86400.0
"""How long a slot is that has nothing but a scheduled time."""
_EARLY: Final = 30.0
"""Cron starts at whole minutes: half a minute before a slot is as far from them as can be."""
_LEAST_SPARE: Final = 60.0
_MOST_SPARE: Final = 86400.0

wall_clock = time.time


class Slot(NamedTuple):
    """One scheduled time. All numbers are seconds, moments are seconds since 1970."""

    at: float
    per: float
    kept: float
    """For how long after `at` the slot is remembered, at the least."""

    @property
    def text(self) -> str:
        """The scheduled time, as people and the names of locks have it: 2026-11-17T18:45:00Z."""
        return datetime.fromtimestamp(self.at, UTC).isoformat().replace("+00:00", "Z")

    @property
    def too_late_at(self) -> float:
        """From this moment on nobody starts: the other half of the spare time is for clocks."""
        return self.at + self.per + spare(self.per) / 2

    def key(self, name: str) -> str:
        """The name of the lock that remembers this slot."""
        return validation.name(f"{name}@{self.text}")

    def left(self, now: float, longest: float) -> float:
        """How long to remember it from now on, however wrong the clock has become meanwhile."""
        most = min(longest, self.kept + self.per)
        return min(max(self.at + self.kept - now, spare(self.per)), most)


def spare(per: float) -> float:
    """How much longer than the slot itself its memory lasts: for late hosts and wrong clocks."""
    return min(max(per, _LEAST_SPARE), _MOST_SPARE)


def kept_for(per: float, at_least: float) -> float:
    """For how long after its scheduled time a slot is remembered."""
    return max(per + spare(per), at_least)


def slot_of(at: At | None, per: float, at_least: float, now: float) -> Slot:
    """Return the slot that is meant, or that a start at this moment counts for."""
    scheduled = _edge(now, per) if at is None else moment(at)
    slot = Slot(round(scheduled, 6), per, kept_for(per, at_least))
    if slot.at - now > per:
        message = (
            f"the scheduled time {slot.text} is {spell(slot.at - now)} ahead of this host's clock, "
            f"and a slot has {spell(per)}: one of the two is wrong"
        )
        raise ConfigurationError(message)
    return slot


def _edge(now: float, per: float) -> float:
    return math.floor((now + min(_EARLY, per / 4)) / per) * per


def moment(at: At) -> float:
    """Return the seconds since 1970; a time without a zone is in the zone of this host."""
    if isinstance(at, datetime):
        return at.timestamp()
    if isinstance(at, str):
        try:
            return datetime.fromisoformat(at.strip()).timestamp()
        except ValueError:
            at = _number(at)
    if isinstance(at, bool) or not isinstance(at, int | float) or not _is_a_time(at):
        raise _wrong(at)
    return float(at)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _wrong(text) from None


def _is_a_time(seconds: float) -> bool:
    """Whether it is a moment that has a date: milliseconds since 1970, say, have none."""
    return 0 <= seconds < datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def _wrong(at: object) -> ConfigurationError:
    return ConfigurationError(
        f"at must be a datetime, seconds since 1970 or a text like 2026-11-17T03:00Z, got {at!r}"
    )
