"""Where events go: to those who asked (`locks.on_event`), and to the logger `locknut`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from locknut import wording
from locknut.core.values import Event
from locknut.hints import Way

log = logging.getLogger("locknut")
log.addHandler(logging.NullHandler())
_enabled = log.isEnabledFor

_LEVELS = {
    "waiting": logging.DEBUG,
    "granted": logging.DEBUG,
    "handed_over": logging.DEBUG,
    "released": logging.DEBUG,
    "timed_out": logging.INFO,
    "at_risk": logging.WARNING,
    "skipped": logging.WARNING,
    "broken": logging.WARNING,
    "abandoned": logging.WARNING,
    "lost": logging.ERROR,
}
SLOW_WAIT = 2.0
"""A wait longer than this is worth a line at INFO."""


class Telling:
    """The ear of one Locks."""

    def __init__(self, way: Way = Way("")) -> None:  # noqa: B008  # a tuple
        self.way = way
        self.listeners: list[Callable[[Event], object]] = []

    def wants(self, kind: str) -> bool:
        return True if self.listeners else _enabled(_LEVELS[kind])

    def tell(self, event: Event) -> None:
        for listener in list(self.listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener for lock events raised")
        level = _LEVELS[event.kind]
        if event.waited is not None and event.waited >= SLOW_WAIT:
            level = max(level, logging.INFO)
        if log.isEnabledFor(level):
            facts = {
                key: value for key, value in event._asdict().items() if value not in (None, "")
            }
            said = (event.name, event.backend, wording.rest(event, self.way))
            log.log(level, wording.message(event), *said, extra={"locknut": facts})

    def add(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Listen from now on; call what this returns to stop."""
        self.listeners.append(listener)

        def stop() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)

        return stop
