"""How a task carries a command to its end, and how it leaves one that takes too long.

A command that was sent arrives whatever its sender does. So a cancellation does not stop it: the
caller's own task waits for it behind a shield, which costs no task. Only at its deadline, or soon
after a cancellation, does the caller leave; then a task of its own finishes the command behind him.
"""

from __future__ import annotations

import asyncio
import math
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from locknut.core.pacing import GRACE
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from locknut.core.ports import Sender

T = TypeVar("T")
Behind = set[asyncio.Task[None]]
"""What is being finished behind its callers. A loop refers to its tasks weakly."""


class _Shield:
    """What a task awaits in place of what its command awaits, so that cancelling it stops here.

    To a task it is a future (`asyncio.isfuture` tells by the mark), done when the other one is.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_wakes",
        "awaited",
        "late",
        "message",
        "timers",
        "woken",
    )

    def __init__(self) -> None:
        self.message: tuple[object, ...] | None = None
        """What the cancellation said; None: there was none."""
        self.awaited: Any = None
        self.late = self.woken = False
        """Late: it is time to leave. Woken: the task was woken to do so."""
        self.timers: tuple[asyncio.TimerHandle, ...] = ()
        self._wakes: tuple[Callable[[Any], object], Any] | None = None

    def over(self, awaited: Any) -> _Shield | None:
        """This, held over what the work awaits; a bare yield awaits nothing."""
        self.awaited, self._wakes = awaited, None
        if awaited is None:
            return None
        awaited._asyncio_future_blocking = False  # as a task does with what it begins to await
        self._asyncio_future_blocking = True
        return self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.awaited.get_loop()  # type: ignore[no-any-return]  # a future's

    def add_done_callback(self, call: Callable[[Any], object], *, context: Any = None) -> None:
        self._wakes = call, context
        self.awaited.add_done_callback(call, context=context)

    def remove_done_callback(self, call: Callable[[Any], object]) -> int:
        removed: int = self.awaited.remove_done_callback(call)
        return removed

    def leave_in(self, seconds: float, awaited: Any) -> None:
        loop = asyncio.get_running_loop() if awaited is None else awaited.get_loop()
        self.timers = (*self.timers, loop.call_later(seconds, self._leave))

    def _leave(self) -> None:
        """Wake the task though nothing has come, unless it is about to be woken."""
        self.late = True
        if self._wakes is not None:
            call, context = self._wakes
            if self.awaited.remove_done_callback(call):
                self.woken = True
                self.get_loop().call_soon(call, self, context=context)

    def over_and_done(self) -> None:
        """It knows the task, and the task may come to know this, by the traceback of an error."""
        self._wakes = None
        for timer in self.timers:
            timer.cancel()

    def result(self) -> None:
        """What the task looks at when `_leave` wakes it: there is no error to be thrown."""

    def cancel(self, msg: object = None) -> bool:
        """Called by the task when it is cancelled: noted, and nothing is disturbed."""
        if self.message is None:
            self.leave_in(GRACE, self.awaited)
        self.message = () if msg is None else (msg,)
        return True

    def cancelled(self) -> bool:
        """Not if the work itself did that, and took it back, as a TaskGroup does."""
        if self.message is None:
            return False
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0

    def cancellation(self) -> asyncio.CancelledError:
        return asyncio.CancelledError(*(self.message or ()))


@types.coroutine
def finish(  # noqa: C901, PLR0912, PLR0915  # one path, and each call of its own would cost
    work: Coroutine[Any, Any, T], seconds: float, sender: Sender | None, behind: Behind
) -> Generator[Any, None, T]:
    """In the caller's own task, behind a shield: a task for every command would cost more than
    the command. A cancellation is told at its end, in its stead.
    """
    try:
        awaited = work.send(None)
    except StopIteration as done:
        at_once: T = done.value
        return at_once  # most commands of an engine without a server end like this
    shield = _Shield()
    left = False
    try:
        if seconds != math.inf:
            shield.leave_in(max(0.0, seconds), awaited)
        step = shield.over(awaited)
        del awaited  # it may know an error, whose traceback knows this frame
        while not left:
            try:
                yield step
            except BaseException as error:  # noqa: BLE001  # the work's, unless it is for us
                if step is None and isinstance(error, asyncio.CancelledError):
                    shield.cancel(*error.args)
                    step = shield.over(work.send(None))
                else:
                    shield.awaited = None  # it knows the error
                    step = shield.over(work.throw(error))
            else:
                if not shield.woken:
                    step = shield.over(work.send(None))
            left = shield.late and step is not None
    except StopIteration as done:
        result: T = done.value
        if not shield.cancelled():
            return result
    except (Exception, asyncio.CancelledError):
        if not shield.cancelled():
            raise
    finally:
        shield.over_and_done()
    if left:
        task = asyncio.get_running_loop().create_task(_finish_behind(work, shield.awaited))
        if not task.done():  # an eager one may be
            behind.add(task)
            task.add_done_callback(behind.discard)
            if sender is not None:
                sender.unfinished = task
        if not shield.cancelled():
            raise BackendUnavailable("no answer before the caller's time was over")
    raise shield.cancellation()


async def _finish_behind(work: Coroutine[Any, Any, Any], awaited: Any) -> None:
    """A task's own coroutine: from CPython 3.12 on a generator is none."""
    await _rest(work, awaited)


@types.coroutine
def _rest(work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, None, None]:
    """What is left of the work; nobody asks what comes of it. It can be cancelled, as whatever is
    left when a loop ends.
    """
    try:
        while True:
            if awaited is not None:
                awaited._asyncio_future_blocking = True
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  # the work's
                awaited = work.throw(error)
            else:
                awaited = work.send(None)
    except (StopIteration, Exception):  # noqa: BLE001  # nobody is told
        return
