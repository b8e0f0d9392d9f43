"""Where events go: to the listeners (`locks.on_event`), and to the logger `locknut`.

`logging` takes long to import, and a short `locknut run` does not need it. So it is never imported
here before somebody else has imported it: until then nobody can have asked for our records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from locknut.core.values import Event
from locknut.faces import log_lines
from locknut.faces.hints import Way

if TYPE_CHECKING:
    import logging

_DEBUG, _INFO, _WARNING, _ERROR = 10, 20, 30, 40  # the numbers of `logging`
_LEVELS = {
    "waiting": _DEBUG,
    "granted": _DEBUG,
    "handed_over": _DEBUG,
    "released": _DEBUG,
    "timed_out": _INFO,
    "at_risk": _WARNING,
    "skipped": _WARNING,
    "broken": _WARNING,
    "abandoned": _WARNING,
    "lost": _ERROR,
}
SLOW_WAIT = 2.0
"""A wait longer than this is worth a line at INFO."""


def _level(kind: str, waited: float) -> int:
    return _LEVELS[kind] if waited < SLOW_WAIT else max(_LEVELS[kind], _INFO)


def _log() -> logging.Logger:
    import logging

    found = logging.getLogger("locknut")
    if not any(isinstance(each, logging.NullHandler) for each in found.handlers):
        found.addHandler(logging.NullHandler())
    return found


def _enabled_if_imported(level: int) -> bool:
    if "logging" not in sys.modules:
        return False
    global _enabled  # noqa: PLW0603  # from now on without a detour
    _enabled = _log().isEnabledFor
    return _enabled(level)


_enabled: Callable[[int], bool] = _enabled_if_imported


class EventHub:
    """Takes the events of one Locks to its listeners and to the log."""

    def __init__(self, way: Way = Way("")) -> None:  # noqa: B008  # a tuple
        self.way = way
        self.listeners: list[Callable[[Event], object]] = []

    def wants(self, kind: str, waited: float = 0.0) -> bool:
        if self.listeners:
            return True
        # Asked for every acquire and release, so `_level` is called only for the rare long wait.
        return _enabled(_LEVELS[kind] if waited < SLOW_WAIT else _level(kind, waited))

    def emit(self, event: Event) -> None:
        for listener in list(self.listeners):
            try:
                listener(event)
            except Exception:  # noqa: BLE001  # it is logged
                _log().exception("a listener for lock events raised")
        level = _level(event.kind, event.waited or 0.0)
        if _enabled(level):
            facts = {
                key: value for key, value in event._asdict().items() if value not in (None, "")
            }
            said = (event.name, event.backend, log_lines.rest(event, self.way))
            _log().log(level, log_lines.message(event), *said, extra={"locknut": facts})

    def add(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends this."""
        self.listeners.append(listener)

        def stop() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)

        return stop
