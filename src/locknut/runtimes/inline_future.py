"""What a command will be answered, for a task to await: it goes on in the step that reads it.

A future of asyncio wakes its task by another turn of the loop, which costs a system call and much
of what an uncontended command costs in all. Here the task goes on at once, inside the callback that
has read the answer: no task is running there, and what it sends goes out with what others send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from locknut.runtimes import cpython

Callback = Callable[[Any], object]
_mark = cpython.mark


class InlineFuture(cpython.TaskFuture):
    """To a task it is a future; not to `asyncio.gather`."""

    __slots__ = ("_callbacks", "_done", "_error", "_loop", "_result")

    def __init__(self, loop: asyncio.AbstractEventLoop):
        _mark(self, False)
        self._callbacks: list[tuple[Callback, Context]] = []
        self._done = False
        self._error: BaseException | None = None
        self._loop = loop
        self._result: Any = None

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._done:
            _mark(self, True)
            yield self
        if self._done and self._error is None:  # as `result`, in place
            return self._result
        return self.result()

    def set_result(self, result: Any) -> None:
        """Only where no task is running: the task that awaits this runs before it returns."""
        self._result, self._done = result, True
        callbacks, self._callbacks = self._callbacks, []
        for call, context in callbacks:
            try:
                context.run(call, self)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001  # as a loop does with its callbacks
                problem = {"message": f"Exception in callback {call!r}", "exception": error}
                self._loop.call_exception_handler(problem)

    def set_exception(self, error: BaseException) -> None:
        self._error, self._done = error, True
        for call, context in self._callbacks:
            self._loop.call_soon(call, self, context=context)
        self._callbacks = []

    def cancel(self, msg: object = None) -> bool:
        """Nobody waits for it any more; the command itself is not called back by that."""
        if self._done:
            return False
        self.set_exception(asyncio.CancelledError(*(() if msg is None else (msg,))))
        return True

    def add_done_callback(self, call: Callback, *, context: Context | None = None) -> None:
        context = context or copy_context()
        if self._done:
            self._loop.call_soon(call, self, context=context)
        else:
            self._callbacks.append((call, context))

    def remove_done_callback(self, call: Callback) -> int:
        kept = [each for each in self._callbacks if each[0] != call]
        removed, self._callbacks = len(self._callbacks) - len(kept), kept
        return removed

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return isinstance(self._error, asyncio.CancelledError)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        if not self._done:
            raise asyncio.InvalidStateError("there is no answer yet")
        return self._result

    def exception(self) -> BaseException | None:
        if self.cancelled():
            self.result()
        return self._error

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop


class PlainFuture(asyncio.Future[Any]):
    """The same by public means: its task goes on in another turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop=loop)

    def set_exception(self, error: type | BaseException) -> None:
        super().set_exception(error)
        self.exception()  # it need not be asked for: do not let asyncio report that


if not TYPE_CHECKING and not cpython.IS_KNOWN:
    InlineFuture = PlainFuture  # on an interpreter that is not known
