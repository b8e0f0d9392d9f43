"""The asyncio colour: the core's coroutines run as they are, on the caller's loop.

A runtime belongs to the loop that first used it. Where a call comes from decides what it may do:

1. *From a task of that loop*, the usual case: the task is the `caller`, and waiting suspends it.
2. *From that loop's thread, but outside of any task* (a callback, a finalizer): it may ring, which
   takes effect at once. There is no task to suspend, so `caller` refuses and
   `caller_or_none` returns None.
3. *From another thread*, such as the keeper's: it may ring, which is passed on to the loop.
4. *From another loop*, or when its own was closed: using it is refused. A ring is forgotten; a
   signal says `gone`, so that the engine drops the claim that waited; users' callbacks run on a
   thread of their own.

Nothing here may keep an ended task alive, or its holds would never be let go: what a task owns
hangs on the task itself, and a signal refers weakly to the future that its task awaits.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from asyncio import current_task
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from locknut.core.callers import Caller, nobody
from locknut.errors import ConfigurationError
from locknut.runtimes.cpython import asks_for_loop, members
from locknut.runtimes.shield import Behind, finish
from locknut.runtimes.threads import Aside, BaseRuntime, new_party

if TYPE_CHECKING:
    from locknut.core.ports import Sender

T = TypeVar("T")
running_loop = asks_for_loop(asyncio.events)
LONGEST_TIMER = 86400.0
"""Seconds. A longer wait wakes up in between, and its caller looks again."""
_owners: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
"""The tasks that carry a `Caller`. It hangs on the task itself: in a table beside the tasks,
whatever a task owns that leads back to the task (a callback, say) would keep both forever."""


def _caller_of(task: asyncio.Task[Any]) -> Caller:
    try:
        caller: Caller = task._locknut  # type: ignore[attr-defined]  # put there below
    except AttributeError:
        caller = Caller(f"task {task.get_name()}", weakref.ref(task), new_party)
        task._locknut = caller  # type: ignore[attr-defined]
        _owners.add(task)
    return caller


class LoopSignal:
    """A ring that wakes one task; may be rung from any thread."""

    __slots__ = ("_future", "_rung", "_runtime")

    def __init__(self, runtime: LoopRuntime):
        self._runtime = runtime
        self._rung = False
        self._future: Callable[[], asyncio.Future[None] | None] = nobody
        """Weakly, because engines keep signals: a task that waits on a loop that was closed has
        to be collected, and so to leave the engine's line."""

    @property
    def gone(self) -> bool:
        """Nobody will ever wake from this: the loop was closed."""
        return self._runtime.gone

    def notify(self) -> None:
        if not self._runtime.bound:
            self._rung = True  # noted for the first wait, which binds the loop before it looks
        self._runtime.on_loop(self._ring)

    def _ring(self) -> None:
        self._rung = True
        future = self._future()
        if future is not None and not future.done():
            future.set_result(None)

    async def wait(self, until: float) -> bool:
        loop = (
            self._runtime.loop
        )  # first: a ring from another thread may be noted until it is bound
        left = until - self._runtime.now()
        if not self._rung and left > 0:
            future = loop.create_future()
            self._future = weakref.ref(future)
            timer = None  # a wait forever needs none, and a cancelled one would linger in the loop
            if left != math.inf:
                timer = loop.call_later(min(left, LONGEST_TIMER), _wake, future)
            try:
                await future
            finally:  # also when it is cancelled: the next ring must not wake a future of the past
                self._future = nobody
                if timer is not None:
                    timer.cancel()
        # A ring before the wait counts too, and it counts once.
        rung, self._rung = self._rung, False
        return rung


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class LoopRuntime(BaseRuntime):
    """Waits by suspending the calling task. Belongs to the loop that first used it."""

    def forked(self) -> None:
        super().forked()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._aside = Aside()
        self._behind: Behind = set()
        self._running: set[asyncio.Future[Any]] = set()
        self.outside = Caller("outside of any task", new_party=new_party)
        """Keeps what was acquired for code that no task of this loop runs, until it is released."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop, which must be the one that was used first."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._bind(loop)
        return loop

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None:
            message = (
                "this asyncio Locks belongs to another event loop; "
                "connect once per loop (asyncio.run makes a new one each time)"
            )
            raise ConfigurationError(message)
        self._loop = loop
        self._thread = get_ident()

    @property
    def bound(self) -> bool:
        """Whether it belongs to a loop by now."""
        return self._loop is not None

    @property
    def gone(self) -> bool:
        """Whether its loop was closed."""
        return self._loop is not None and self._loop.is_closed()

    @property
    def elsewhere(self) -> bool:
        """Whether it belongs to a loop that was closed, or to another one than runs here."""
        return self.gone or self._loop not in (None, running_loop() or self._loop)

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call it on the loop: at once if we are there, soon otherwise. A closed loop forgets, and
        where there is no loop yet nobody waits.
        """
        loop = self._loop
        if loop is None:
            return
        # A thread's number is used again: the loop's may be that of another thread by now.
        if get_ident() == self._thread and not loop.is_closed():
            call()
        else:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(call)

    def signal(self) -> LoopSignal:
        return LoopSignal(self)

    def finish(
        self, work: Coroutine[Any, Any, T], until: float = math.inf, sender: Sender | None = None
    ) -> Awaitable[T]:
        seconds = until if until == math.inf else until - self.now()
        return finish(work, seconds, sender, self._behind)

    async def settle(self, until: float) -> None:
        """Until the end of what was left behind, or that time."""
        behind, left = list(self._behind), until - self.now()
        if behind and left > 0:
            await asyncio.wait(behind, timeout=left)

    def begins_to_wait(self) -> None:
        """The loop goes on."""

    def deadline(self) -> float:
        return math.inf

    def caller(self) -> Caller:
        # Asking for the running loop is a system call; on its thread only our own runs our tasks.
        task = current_task(self._loop) if get_ident() == self._thread else None
        if task is None:
            task = current_task(self.loop)
        if task is None:
            raise ConfigurationError("the asyncio API must be used inside a task")
        return _caller_of(task)

    def caller_or_none(self) -> Caller | None:
        """The same for calls that may come from outside of any task or from another loop: None."""
        loop = self._loop if get_ident() == self._thread else None
        task = None if loop is None else current_task(loop)
        if task is None:  # a call of long ago, or from elsewhere
            loop = running_loop()
            if loop is None or self._loop not in (None, loop):
                return None
            task = current_task(loop)
        return None if task is None else _caller_of(task)

    def alive(self, caller: Caller | None) -> bool:
        task = None if caller is None else caller.task()
        return task is not None and not task.done()

    def aside(self, call: Callable[[], object]) -> None:
        """On the loop, where an asyncio user expects it; on a thread once the loop is closed."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._call, call)
                return
        self._aside(call)

    def _call(self, call: Callable[[], object]) -> None:
        """A callback may be a coroutine function: then it runs as a task."""
        result = call()
        if asyncio.iscoroutine(result):
            task = asyncio.ensure_future(result)
            self._running.add(task)  # a loop refers to its tasks weakly
            task.add_done_callback(self._running.discard)


def forget_all() -> None:
    """In a forked child: the task that goes on owns nothing."""
    for task in members(_owners):
        del task._locknut  # type: ignore[attr-defined]
    _owners.clear()
