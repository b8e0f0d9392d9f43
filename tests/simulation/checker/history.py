"""What happened: one record per event, the same for the simulator and for real processes.

Times are seconds on one clock that all events of a history share: virtual time in the simulator,
the boot-time clock on one machine. `until` is on that clock too: whoever records maps the holder's
own clock to it, so that the checker compares belief with belief in true time.
"""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from locknut.core.values import Mode


class Kind(enum.StrEnum):
    """What an event tells."""

    # One acquire, by whoever asked: exactly one of the outcomes follows the call.
    CALLED = "called"
    WAITING = "waiting"
    ACQUIRED = "acquired"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    FAILED = "failed"
    # One hold, as its holder sees it.
    RENEWED = "renewed"
    CHECKED = "checked"
    AT_RISK = "at_risk"
    LOST = "lost"
    DOWNGRADED = "downgraded"
    DETACHED = "detached"
    RELEASE_CALLED = "release_called"
    RELEASED = "released"
    # A process.
    PAUSED = "paused"
    RESUMED = "resumed"
    CRASHED = "crashed"
    # The engine, where the recorder can see it: which claim, and by whose command.
    GRANTED = "granted"
    EXTENDED = "extended"
    FREED = "freed"
    WITHDRAWN = "withdrawn"
    FORGOT = "forgot"
    BROKEN = "broken"
    STEPPED = "stepped"
    BEHIND = "behind"
    CUT = "cut"
    # The guarded resource.
    ENTERED = "entered"
    READ = "read"
    WROTE = "wrote"
    REFUSED = "refused"
    # The run itself.
    DISTURBED = "disturbed"
    CALM = "calm"
    LEFT = "left"
    ENDED = "ended"


AMONG = "with others"
"""The note of a call for several names, on the first: it may be had while the next is waited for,
and nobody believes in it yet."""
BESIDE = "beside another"
"""The note of a call for several names, on all but the first: they are asked for in their turn, so
nobody wants them yet while the first is waited for."""

ATTACHED = "of a detached hold"
"""The note of a call that goes on with a hold which somebody detached."""


class Event(NamedTuple):
    """One thing that happened."""

    t: float
    who: str
    """The process; clocks, pauses and crashes belong to it."""
    kind: Kind
    name: str = ""
    """The lock, or the guarded resource; empty: all of them."""
    hold: str = ""
    """Which acquire call, or which claim in the engine's own events; never used for two."""
    fence: int | None = None
    until: float | None = None
    """When validity ends; None with a grant: not before release or death. Of a hold that is
    detached: until when it is there for others."""
    mode: Mode = Mode.EXCLUSIVE
    permits: int = 1
    owner: str | None = None
    fair: bool = False
    by: str = ""
    """The claim whose command did it (engine events); of a call that attaches: whose hold."""
    value: int | None = None
    """What the guarded resource showed or was given."""
    note: str = ""


Record = Callable[[Event], None]
"""Where events go; called once per event, in the order in which the process sees them."""

_MODES = {mode.value: mode for mode in Mode}
_KINDS = {kind.value: kind for kind in Kind}
_DEFAULTS = Event._field_defaults


def to_json(event: Event) -> str:
    """One line, without what is as usual."""
    fields = {k: v for k, v in event._asdict().items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    if "mode" in fields:
        fields["mode"] = event.mode.value
    return json.dumps(fields, separators=(",", ":"))


def from_json(line: str) -> Event:
    fields = json.loads(line)
    fields["kind"] = _KINDS[fields["kind"]]
    if "mode" in fields:
        fields["mode"] = _MODES[fields["mode"]]
    return Event(**fields)


class Journal:
    """Events of one real process, appended to a file of its own.

    Each event is one write of one line straight to the kernel, so that what happened before a
    SIGKILL is there afterwards; a torn last line is what was being written at that moment.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def __call__(self, event: Event) -> None:
        os.write(self._file, (to_json(event) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def read(paths: Iterable[Path]) -> list[Event]:
    """The histories of all processes as one, in the order of time."""
    events = [event for path in sorted(paths) for event in _read_one(path)]
    return sorted(events, key=lambda event: event.t)


def _read_one(path: Path) -> Iterator[Event]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield from_json(line)


def timeline(events: Iterable[Event]) -> str:
    """A history for people, one line per event."""
    return "\n".join(_told(event) for event in events)


def _told(event: Event) -> str:
    parts = [f"{event.t:12.6f}", f"{event.who:<8}", f"{event.kind:<14}", f"{event.name:<6}"]
    if event.hold:
        parts.append(event.hold[:8])
    for field in ("fence", "until", "owner", "by", "value", "note"):
        found = getattr(event, field)
        if found not in (None, ""):
            parts.append(f"{field}={found:.6f}" if field == "until" else f"{field}={found}")
    if event.mode is not Mode.EXCLUSIVE:
        parts.append(f"{event.mode.value}/{event.permits}")
    return " ".join(parts)
