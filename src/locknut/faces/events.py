"""Where events go: to the listeners (`locks.on_event`), and to the logger `locknut`.

`logging` takes long to import, and a short `locknut run` does not need it. So it is never imported
here before somebody else has imported it: until then nobody can have asked for our records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from locknut.core.values import Event, RenewalReport
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
    "detached": _DEBUG,
    "failed": _DEBUG,  # its caller gets the error
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


def log_raised(what: str) -> None:
    """Log the exception of a callback of the user's, which must not stop anything of ours."""
    _log().exception("%s raised", what)


class CommandReport(NamedTuple):
    """One command to an engine: what it was, how long it took, and what it raised."""

    backend: str
    command: str
    seconds: float
    error: BaseException | None = None


class Candidacy(NamedTuple):
    """Somebody wants to lead: from now on, whoever holds this lock leads."""

    backend: str
    name: str


class Sink(Protocol):
    """Where measurements go."""

    def observer(self) -> Observer:
        """Make an observer for one Locks more."""


class Observer(Protocol):
    """What measures one Locks. It is called from any thread and must be quick: the keeper and the
    callers do not go on before.
    """

    @property
    def sink(self) -> Sink:
        """What made it."""

    def on_event(self, event: Event) -> object: ...

    def on_renewal(self, report: RenewalReport) -> object: ...

    def on_command(self, report: CommandReport) -> object: ...

    def on_election(self, report: Candidacy) -> object: ...

    def stop(self) -> None:
        """Nothing more is reported."""


class EventHub:
    """Takes the events of one Locks to its listeners and to the log."""

    def __init__(self, way: Way = Way("")) -> None:  # noqa: B008  # a tuple
        self.way = way
        self.listeners: list[Callable[[Event], object]] = []
        self.observers: tuple[Observer, ...] = ()
        """Those that measure; their `on_event` is one of the listeners."""
        self.measured = False
        self._records: Callable[[Event], object] | None = None

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
                log_raised("a listener for lock events")
        level = _level(event.kind, event.waited or 0.0)
        if _enabled(level):
            facts = {
                key: value for key, value in event._asdict().items() if value not in (None, "")
            }
            said = (event.name, event.backend, log_lines.rest(event, self.way))
            _log().log(level, log_lines.message(event), *said, extra={"locknut": facts})

    def renewal(self, report: RenewalReport) -> None:
        for observer in self.observers:
            self._tell(observer.on_renewal, report)

    def command(self, report: CommandReport) -> None:
        """Take in how long the engine took for a command, on the thread that sent it."""
        for observer in self.observers:
            self._tell(observer.on_command, report)

    def election(self, report: Candidacy) -> None:
        for observer in self.observers:
            self._tell(observer.on_election, report)

    def _tell(self, told: Callable[[Any], object], report: Any) -> None:
        try:
            told(report)
        except Exception:  # noqa: BLE001  # it is logged: metrics never harm a lock
            _log().exception("an observer of locks raised")

    def observe(self, sink: Sink) -> None:
        """Report everything to an observer of this sink from now on; but never twice."""
        if all(each.sink is not sink for each in self.observers):
            observer = sink.observer()
            self.listeners.append(observer.on_event)
            self.observers = (*self.observers, observer)
            self.measured = True

    def unobserve(self, sink: Sink) -> None:
        for observer in self.observers:
            if observer.sink is sink:
                self.listeners.remove(observer.on_event)
                self.observers = tuple(each for each in self.observers if each is not observer)
                self.measured = bool(self.observers)
                observer.stop()

    def record(self, record: Callable[[Event], object]) -> None:
        """Let the history have every event; in a forked child, another one than in the parent."""
        if self._records is not None:
            self.listeners.remove(self._records)
        self._records = record
        self.listeners.append(record)

    def no_history(self, error: Exception) -> None:
        """Report that the history cannot be written. It is tried again, and nothing else fails."""
        _log().warning("history cannot be written at %s: %s", self.way.place, error)

    def add(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends this."""
        self.listeners.append(listener)

        def stop() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)

        return stop
