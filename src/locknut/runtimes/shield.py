"""How a task carries a command to its end, and how it leaves a command that takes too long.

A command that was sent arrives whatever its sender does. So a cancellation does not stop it: the
caller's own task waits for it behind a shield, which costs no task. The caller leaves only at its
deadline, or soon after a cancellation; then another task finishes the command behind it.

On an interpreter that is not known (`cpython.py`) there is no shield: every command that has to
wait is finished by a task of its own.
"""

from __future__ import annotations

import asyncio
import math
import sys
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from locknut.core.pacing import GRACE
from locknut.errors import BackendUnavailable
from locknut.runtimes import cpython

if TYPE_CHECKING:
    from locknut.core.ports import Sender

T = TypeVar("T")
Behind = set[asyncio.Task[Any]]
"""The commands that are being finished behind their callers. A loop refers to its tasks weakly."""


class _Shield(cpython.TaskFuture):
    """What a task awaits in place of what its command awaits, so that cancelling it stops here.

    To a task it is a future, done when the other one is.
    """

    __slots__ = (
        "_wakes",
        "awaited",
        "late",
        "message",
        "timers",
        "woken",
    )

    def __init__(self) -> None:  # without that of its base: `over` sets the mark before it is used
        self.message: tuple[object, ...] | None = None
        """What the cancellation said; None if there was none."""
        self.awaited: Any = None
        self.late = self.woken = False
        """`late`: it is time to leave. `woken`: the task was woken to do so."""
        self.timers: tuple[asyncio.TimerHandle, ...] = ()
        self._wakes: tuple[Callable[[Any], object], Any] | None = None

    def over(self, awaited: Any) -> _Shield | None:
        """The shield, held over what the work awaits; None for a bare yield."""
        self.awaited, self._wakes = awaited, None
        if awaited is None:
            return None
        cpython.take_the_place_of(awaited, self)
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
        """Wake the task though there is no answer, unless it is about to be woken."""
        self.late = True
        if self._wakes is not None:
            call, context = self._wakes
            if self.awaited.remove_done_callback(call):
                self.woken = True
                self.get_loop().call_soon(call, self, context=context)

    def over_and_done(self) -> None:
        """Forget the task: it may know this shield, by the traceback of an error."""
        self._wakes = None
        for timer in self.timers:
            timer.cancel()

    def result(self) -> None:
        """The task asks for this when `_leave` wakes it: there is no error to be thrown."""

    def cancel(self, msg: object = None) -> bool:
        """Called by the task when it is cancelled: note it, and let the command go on."""
        if self.message is None:
            self.leave_in(GRACE, self.awaited)
        self.message = () if msg is None else (msg,)
        return True

    def cancelled(self) -> bool:
        """False if the work itself cancelled the task and took that back, as a TaskGroup does."""
        if self.message is None:
            return False
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0

    def cancellation(self) -> asyncio.CancelledError:
        return asyncio.CancelledError(*(self.message or ()))


@types.coroutine
def _finish_in_place(  # noqa: C901, PLR0912, PLR0915  # one path, and each call in it would cost
    work: Coroutine[Any, Any, T], seconds: float, sender: Sender | None, behind: Behind
) -> Generator[Any, None, T]:
    """Finish it in the caller's own task, behind a shield: a task for every command would cost more
    than the command. A cancellation is raised at the end, in place of the result.
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
            except BaseException as error:  # noqa: BLE001  # the work's, unless it is ours
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
        if shield.message is None or not shield.cancelled():
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
    """A coroutine for a task: from CPython 3.12 on a generator is not one."""
    await _rest(work, awaited)


@types.coroutine
def _rest(work: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, None, None]:
    """Do the rest of the work; nobody asks for its result. It can be cancelled, as everything is
    that is left when a loop ends.
    """
    try:
        while True:
            if awaited is not None:
                cpython.before_yield_again(awaited)
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  # the work's
                awaited = work.throw(error)
            else:
                awaited = work.send(None)
    except (StopIteration, Exception):  # noqa: BLE001  # nobody asks for it
        return


async def _finish_in_task(
    work: Coroutine[Any, Any, T], seconds: float, sender: Sender | None, behind: Behind
) -> T:
    """Finish it in a task of its own, which no cancellation of the caller's task reaches."""
    loop = asyncio.get_running_loop()
    # An eager task that need not wait ends here, without another turn of the loop.
    eager: Any = {"eager_start": True} if sys.version_info >= (3, 12) else {}
    task: asyncio.Task[T] = asyncio.Task(work, loop=loop, **eager)
    try:
        cancelled = await _ended(task, seconds)
    except GeneratorExit:
        task.add_done_callback(_forget)
        task.cancel()
        work.close()
        raise
    if not task.done():
        behind.add(task)
        task.add_done_callback(behind.discard)
        task.add_done_callback(_forget)
        if sender is not None:
            sender.unfinished = task
        if cancelled is None:
            raise BackendUnavailable("no answer before the caller's time was over")
    try:
        if cancelled is not None:
            _forget(task)
            raise asyncio.CancelledError(*cancelled)
        return task.result()
    finally:
        del task  # it may know an error, whose traceback knows this frame


async def _ended(task: asyncio.Task[Any], seconds: float) -> tuple[object, ...] | None:
    """Wait for its end, or until it is time to leave. What a cancellation of the caller said, if
    there was one and it stands.
    """
    loop = asyncio.get_running_loop()
    until, message = loop.time() + seconds, None
    while not task.done():
        left = until - loop.time()
        try:
            await asyncio.wait((task,), timeout=None if left == math.inf else max(0.0, left))
        except asyncio.CancelledError as error:
            until = until if message is not None else min(until, loop.time() + GRACE)
            message = error.args
        else:
            break
    own = asyncio.current_task()
    return message if own is None or own.cancelling() > 0 else None


def _forget(task: asyncio.Task[Any]) -> None:
    """Nobody asks for its error: do not let asyncio report that."""
    if task.done() and not task.cancelled():
        task.exception()


finish = _finish_in_place if cpython.IS_KNOWN else _finish_in_task
