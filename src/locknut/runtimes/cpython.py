"""The private parts of CPython and asyncio that Locknut uses: why, and what to do without them.

They are used on interpreters where the tests have seen them work (`KNOWN`), and nowhere else. On
any other interpreter public ways take their place, which are right as well and cost more.
`tests/core/test_unknown_interpreter.py` runs a part of the suite with these.

1. *The mark of a future*, `_asyncio_future_blocking`: a task awaits only what carries it. With it a
   command is finished in its caller's own task, and an answer wakes its task without another turn
   of the loop. Without it `shield.finish` makes a task for each command that has to wait, and
   `InlineFuture` is a plain future.
2. *The owner of a re-entrant lock*, `RLock._is_owned`: whether the calling thread is inside.
   Without it a `Condition` is asked, which refuses to notify if the lock is not the caller's.
3. *The event that `Thread.start` waits for*, `Thread._started`: without it a caller that has just
   acquired its first lock waits until the keeper's thread runs. What CPython 3.11.2 makes of a
   thread that has not begun when the process ends is a crash, so `_BegunThread` sees to that.
4. *The running loop or None*, `_get_running_loop`: the public function raises where there is none,
   and that costs more than the answer.
5. *Whether any task runs*, `_current_tasks`: before 3.12 it is cheaper than asking for the loop.
6. *The mark of a coroutine function*, `_is_coroutine`: `inspect` has a public one from 3.12 on. On
   an older interpreter that is not known, other libraries do not see that `acquire` is one.
7. *The socket below a transport*, `_sock`: a forked child closes it. Without it the child replaces
   the descriptor, as it does on uvloop.
8. *The frame of the caller*, `sys._getframe`: for the line that a warning is about. Without it
   `inspect` is asked, and imported for it.

This file does not import asyncio at its top: a blocking program need not pay for it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from _thread import RLock
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
KNOWN: Final = ((3, 11), (3, 12), (3, 13), (3, 14))
IS_KNOWN: Final = sys.implementation.name == "cpython" and sys.version_info[:2] in KNOWN


class TaskFuture:
    """The base of what a task takes for a future (`asyncio.isfuture` looks for the mark)."""

    __slots__ = ("_asyncio_future_blocking",)
    _asyncio_future_blocking: bool


mark: Callable[[TaskFuture, bool], None] = TaskFuture.__dict__["_asyncio_future_blocking"].__set__
"""False when one is made, True right before it is yielded to a task, as `Future.__await__` does it.
A call of the slot itself, because two of them are on the way of every command."""


def take_the_place_of(awaited: Any, instead: TaskFuture) -> None:
    """Let `instead` be yielded to a task, which then believes that it has awaited the other."""
    awaited._asyncio_future_blocking = False  # as a task does with what it begins to await
    instead._asyncio_future_blocking = True


def before_yield_again(awaited: Any) -> None:
    """To be called before a future is yielded to a second task."""
    awaited._asyncio_future_blocking = True


def _ask_condition(lock: Any) -> bool:
    try:
        threading.Condition(lock).notify(0)
    except RuntimeError:
        return False
    return True


is_inside: Callable[[Any], bool] = RLock._is_owned if IS_KNOWN else _ask_condition  # type: ignore[attr-defined]
"""Whether the calling thread has this re-entrant lock. In a class body it is a method."""


_coming: set[_BegunThread] = set()
"""Threads that were started, and may not have begun."""
_ended_by: set[int] = set()
"""The thread that ends the process, once it does."""
_PATIENCE: Final = 2.0
"""Seconds for the machine to begin with a thread that was started."""


class _BegunThread(threading.Thread):
    """A thread that has begun when the interpreter goes away, or was never started.

    The interpreter frees what it keeps of other threads. On CPython 3.11.2 (Debian 12) a thread
    that begins after that looks there all the same, and the program ends with a segmentation fault
    in place of its own exit code.
    """

    def __init__(self, **facts: Any):
        super().__init__(**facts)
        self._begun = threading.Event()

    def start(self) -> None:
        try:
            _coming.add(self)  # first: who ends the process sees it, or is seen
            if _ended_by and threading.get_ident() not in _ended_by:
                raise RuntimeError("can't start new thread at interpreter shutdown")
            super().start()
        except BaseException:
            _coming.discard(self)
            raise
        if _ended_by:
            _wait_for_beginnings()

    def run(self) -> None:
        _coming.discard(self)
        self._begun.set()
        super().run()


def _at_exit() -> None:
    _ended_by.add(threading.get_ident())
    _wait_for_beginnings()


def _wait_for_beginnings() -> None:
    for thread in tuple(_coming):
        thread._begun.wait(_PATIENCE)


def _after_fork_in_child() -> None:
    _ended_by.clear()
    _coming.clear()


# Before anybody who gives locks back at the end, so it is called after them.
atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class _UnawaitedThread(_BegunThread):
    def __init__(self, **facts: Any):
        super().__init__(**facts)
        self._started = _Unawaited()  # by another name, `start` would wait

    def join(self, timeout: float | None = None) -> None:
        self._started.has_come(timeout)
        super().join(timeout)


class _Unawaited(threading.Event):
    """Is not waited for by `wait`."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002  # an Event's
        return True

    def has_come(self, timeout: float | None) -> bool:
        return super().wait(timeout)


UnawaitedThread: type[threading.Thread] = _UnawaitedThread if IS_KNOWN else _BegunThread
"""A thread whose `start` does not wait until it runs: under load that takes milliseconds."""


def running_loop() -> Any:
    """The event loop that the calling thread runs, or None."""
    events = sys.modules.get("asyncio.events")  # not imported for this: then no loop runs
    return None if events is None else asks_for_loop(events)()


def asks_for_loop(events: Any) -> Callable[[], Any]:
    """The function that asks for it, for modules that have `asyncio.events` anyway."""
    if IS_KNOWN:
        asks: Callable[[], Any] = events._get_running_loop
        return asks

    def asks_publicly() -> Any:
        try:
            return events.get_running_loop()
        except RuntimeError:
            return None

    return asks_publicly


def may_run_tasks(tasks: Any) -> bool:
    """False if certainly no task runs on any thread, where that is cheaper than `running_loop`."""
    return not IS_KNOWN or sys.version_info >= (3, 12) or bool(tasks._current_tasks)


def mark_coroutine_function(function: F) -> F:
    """For a function that returns a coroutine without being `async def`: let others see that."""
    function.__locknut_coroutine__ = True  # type: ignore[attr-defined]
    if sys.version_info >= (3, 12):
        import inspect

        return inspect.markcoroutinefunction(function)
    if IS_KNOWN:
        import asyncio

        function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return function


def is_coroutine_function(function: object) -> bool:
    """Whether calling it gives something to await: before 3.12 `inspect` does not see the mark."""
    import inspect

    return inspect.iscoroutinefunction(function) or hasattr(function, "__locknut_coroutine__")


def socket_below(transport_socket: Any) -> object | None:
    """The real socket of a transport's, if that can be had."""
    return getattr(transport_socket, "_sock", None) if IS_KNOWN else None


def caller_frame() -> FrameType | None:
    """The frame of the function that called the caller of this."""
    if IS_KNOWN:
        return sys._getframe(2)
    import inspect

    frame = inspect.currentframe()
    return None if frame is None or frame.f_back is None else frame.f_back.f_back


def members(of: Collection[T]) -> list[T]:
    """All of a weak set, or all keys of a weak dictionary, whatever other threads add meanwhile.

    CPython iterates them in Python code (to 3.14 at least), so `list` of one lets other threads in
    between. What the collector takes is put off until the iteration is over; what a thread adds
    ends it with "Set changed size during iteration".
    """
    while True:
        try:
            return list(of)
        except RecursionError:  # a RuntimeError as well
            raise
        except RuntimeError:  # somebody was added: it takes far less time than until the next
            pass
