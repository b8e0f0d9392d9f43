"""How long an engine takes: a backend that reports each command of the one behind it.

It stands before a backend only while somebody measures. Otherwise it is not there, so that it costs
nothing. What a command does, and what it raises, is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from locknut.faces.events import CommandReport

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.ports import Backend
    from locknut.core.values import Answer, Claim
    from locknut.faces.events import EventHub

COMMANDS: Final = {
    "attempt_all": "acquire",
    "renew": "renew",
    "release": "release",
    "release_all": "release",
    "downgrade": "downgrade",
    "detach": "detach",
    "attach": "attach",
    "undo_attach": "attach",
    "break_hold": "break",
    "inspect": "inspect",
    "inspect_all": "inspect",
    "inspect_holders": "inspect",
}
"""What the commands of the port are called in a report. `attempt` is an `acquire`; one that may
wait in the engine is a `wait`, whose time says nothing about the engine's speed."""

Command = Callable[..., Coroutine[Any, Any, Any]]


class TimedBackend:
    """The backend behind it, whose commands are timed."""

    def __init__(self, events: EventHub, now: Callable[[], float], inner: Backend):
        self.inner = inner
        self._events = events
        self._now = now
        self._acquire = self._timed("acquire", inner.attempt)
        self._wait = self._timed("wait", inner.attempt)
        for command, reported in COMMANDS.items():
            setattr(self, command, self._timed(reported, getattr(inner, command)))

    def __getattr__(self, name: str) -> Any:
        """All the rest is the affair of the one behind."""
        return getattr(self.inner, name)

    def attempt(self, claim: Claim, patience: float) -> Coroutine[Any, Any, Answer]:
        return (self._wait if patience > 0 else self._acquire)(claim, patience)

    def _timed(self, reported: str, command: Command) -> Command:
        async def send(*args: Any, **options: Any) -> Any:
            started = self._now()
            error: BaseException | None = None
            try:
                return await command(*args, **options)
            except BaseException as raised:
                error = raised
                raise
            finally:
                took = self._now() - started
                self._events.command(CommandReport(self.inner.name, reported, took, error))

        return send


def begin(client: Client) -> None:
    """Time the commands of this client and of its keeper, from now on."""
    if not isinstance(client.backend, TimedBackend):
        events = cast("EventHub", client.events)
        timed = cast("Any", partial(TimedBackend, events, client.runtime.now))
        client.backend = timed(client.backend)
        client.keeper.exchange(timed)


def end(client: Client) -> None:
    """Time them no longer."""
    client.backend = _plain(client.backend)
    client.keeper.exchange(_plain)


def _plain(backend: Backend) -> Backend:
    return backend.inner if isinstance(backend, TimedBackend) else backend
