"""The port to a runtime: how one colour waits, signals, guards and finishes a command.

`ports.py` has the other ports, and hands these on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from locknut.core.callers import Caller

T = TypeVar("T")
NEVER = float("inf")


class Signal(Protocol):
    """Something to wait on that anybody may ring, once or often, before or during the wait.

    Ringing never fails. A signal that can never wake anybody again, because its event loop was
    closed, has a `gone` that is true: an engine drops the claim that waited for it. A task that
    waited there is not kept by its signal: once it is collected, its wait ends like a cancelled
    one, on whatever thread that happens, without a running loop.
    """

    def notify(self) -> None:
        """Ring. From any thread."""

    async def wait(self, until: float) -> bool:
        """Wait for a ring and use it up; False once `until` has passed without one."""


class Sender(Protocol):
    """The thread or task that awaits a command."""

    unfinished: Awaitable[object] | None
    """The end of a command that its sender left behind, if there is one."""


class Guard(AbstractContextManager[Any], Protocol):
    """A mutex, never held over I/O or a wait (S18). It knows whether the calling thread has it."""

    def inside(self) -> bool:
        """True in code of others that runs while this thread is inside: a finalizer, a signal
        handler. Nothing may be changed there.
        """


class Runtime(Protocol):
    """How one colour (threads, an event loop, the simulator) waits, signals and guards."""

    def now(self) -> float:
        """The clock of the contract: runs on while the machine is suspended, never steps."""

    def signal(self) -> Signal: ...

    def guard(self) -> Guard:
        """A new one. Real in both colours."""

    def finish(
        self, work: Coroutine[Any, Any, T], until: float = NEVER, sender: Sender | None = None
    ) -> Awaitable[T]:
        """Run a command to its end even if its caller is cancelled; the caller learns it then.

        At `until`, or soon after the cancellation, the caller leaves before the end, with
        BackendUnavailable. The rest of the work is then done behind its back, where that is
        possible (`Sender.unfinished`).
        """

    async def settle(self, until: float) -> None:
        """Wait for the end of what callers left behind, until then at the most."""

    def begins_to_wait(self) -> None:
        """Before a caller waits for others: warns if that stops more than the caller; may raise."""

    def deadline(self) -> float:
        """Until when the calling thread can wait for what it is doing; tasks can leave it."""

    def caller(self) -> Caller:
        """What belongs to the calling thread or task alone, and its name; gone when it is gone."""

    def alive(self, caller: Caller | None) -> bool:
        """Whether somebody still running owns this: False once its task has finished (L10)."""

    @property
    def elsewhere(self) -> bool:
        """Whether it belongs to a loop that was closed, or to another one than runs here."""

    def at_home(self) -> bool:
        """False in a forked child, where everything belongs to the parent; until `forked`."""

    def forked(self) -> None:
        """Called in a forked child: begin anew there, with no loop, thread or mutex of before."""

    def new_id(self) -> str:
        """128 random bits in hex, never given twice."""

    def random(self) -> float:
        """Between 0 and 1, for jitter."""

    def aside(self, call: Callable[[], object]) -> None:
        """Run a user's callback where it cannot hold us up: never on the caller's thread (L12)."""
