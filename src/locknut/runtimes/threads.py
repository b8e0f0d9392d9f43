"""The blocking colour: the leaves block, so a core coroutine finishes in one step."""

from __future__ import annotations

import _thread
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from locknut.core import callers
from locknut.core.callers import Caller
from locknut.errors import BackendUnavailable, BlockingInLoopWarning
from locknut.runtimes import clock, cpython
from locknut.runtimes.deadlines import current, within

if "gevent.monkey" in sys.modules:  # it has to come first, and few programs have it
    from locknut.runtimes.greenlets import pass_on
else:

    def pass_on(interrupt: BaseException, /) -> bool:  # noqa: ARG001  # nobody to pass it on to
        """Threads are no greenlets here."""
        return False


T = TypeVar("T")
_local = threading.local()


class PartyIds:
    """Makes identities of threads and tasks; those of a forked child are not its parent's."""

    def __init__(self) -> None:
        self.forked()

    def forked(self) -> None:
        self._process = callers.process_id(os.urandom(callers.PROCESS))
        self._serials = count(1)

    def __call__(self) -> str:
        return f"{self._process}.{next(self._serials)}"


new_party = PartyIds()
_DONE: Final = object()
_NO_THREAD: Final = (
    "the thread {name!r}, which this needs, cannot be started ({error}): this user or container "
    "has as many as it may have (ulimit -u, pids.max), or no memory is left"
)
_STALLED: Final = (
    "a blocking lock waits in a thread that runs an asyncio event loop: all tasks of the loop "
    "stand still meanwhile; use locknut.aio in asyncio code"
)
"""It names no lock, because Python remembers each text that it has shown: there could be many."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose leaves block. It must not suspend: there is no loop to go back to."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise _suspended(work)


def run_void(work: Awaitable[None] | None) -> None:
    """The same for work without a result, at half the price: no StopIteration is made. None: there
    is nothing left to do.
    """
    if work is None:
        return
    steps = work.__await__()
    if next(steps, _DONE) is not _DONE:
        raise _suspended(steps)


def _suspended(work: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> RuntimeError:
    work.close()
    return RuntimeError("a blocking call suspended: an asyncio part is used from the blocking API")


class ThreadSignal:
    """A binary semaphore made of one lock: rung means unlocked."""

    __slots__ = ("_lock", "_now")

    def __init__(self, now: Callable[[], float] = clock.now):
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._now = now

    def notify(self) -> None:
        with suppress(RuntimeError):  # already rung
            self._lock.release()

    async def wait(self, until: float) -> bool:
        left = until - self._now()
        if left <= 0:
            return self._lock.acquire(blocking=False)
        return self._lock.acquire(timeout=min(left, threading.TIMEOUT_MAX))


class Guard(_thread.RLock):  # type: ignore[misc]  # final in typeshed alone
    """A mutex that knows whether the calling thread is inside.

    Python runs code of others anywhere: finalizers where something is collected, signal handlers
    between two steps of the main thread. Such code may call us while its own thread is inside:
    a plain mutex would wait for itself, so `inside` is asked before anything half done is touched.
    """

    __slots__ = ()
    if TYPE_CHECKING:

        def inside(self) -> bool: ...

    else:
        inside = cpython.is_inside


class Aside:
    """Runs users' callbacks one after the other, on a thread that ends when none are left.

    A callback may end its thread (`sys.exit()`), and so may others: then another one goes on.
    """

    def __init__(self) -> None:
        self._calls: deque[Callable[[], object]] = deque()
        self._mutex = Guard()  # a finalizer may come back in; no step minds
        self._worker: object = None
        """Stands for the thread that runs them, if there is one."""

    def __call__(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        self._begin()

    def _begin(self) -> None:
        worker = object()
        try:
            with self._mutex:
                if self._worker is not None or not self._calls:
                    return
                self._worker = worker
            cpython.UnawaitedThread(
                target=self._work, args=(worker,), name="locknut-callbacks", daemon=True
            ).start()
        except RuntimeError:  # no thread to be had: the next call tries again
            self._end(worker)  # not raised: this may be the keeper, which has more to look after
        except BaseException:  # interrupted
            self._end(worker)
            raise

    def _end(self, worker: object) -> None:
        with self._mutex:
            if self._worker is worker:
                self._worker = None

    def _work(self, worker: object) -> None:
        try:
            while (call := self._next(worker)) is not None:
                try:
                    call()
                except Exception:  # noqa: BLE001  # a user's callback must not stop the others
                    caught = (*sys.exc_info(), threading.current_thread())
                    threading.excepthook(threading.ExceptHookArgs(caught))
        except BaseException as error:
            self._end(worker)
            self._begin()
            if not isinstance(error, KeyboardInterrupt) or not pass_on(error):
                raise

    def _next(self, worker: object) -> Callable[[], object] | None:
        """What this thread does next; None if that is another's affair, or there is nothing."""
        with self._mutex:
            if self._worker is worker and self._calls:
                return self._calls.popleft()
            self._end(worker)
        return None


class BaseRuntime:
    """What both runtimes have: a clock, chance, ids, and the process that they belong to."""

    def __init__(self, now: Callable[[], float] = clock.now):
        self.now = now
        self.forked()

    def forked(self) -> None:
        """In a forked child: from now on it belongs to this process."""
        self._pid = os.getpid()

    def at_home(self) -> bool:
        return os.getpid() == self._pid

    def guard(self) -> Guard:
        return Guard()

    def new_id(self) -> str:
        return os.urandom(16).hex()

    def random(self) -> float:
        # Not the module `random`: if Ctrl-C came while a waiting caller imports it, the lock of
        # that import would stay taken, and every thread that waits would hang.
        return int.from_bytes(os.urandom(4)) / 2**32


class ThreadRuntime(BaseRuntime):
    """Waits by blocking the calling thread."""

    elsewhere = False
    """No thread belongs to a loop."""

    def forked(self) -> None:
        super().forked()
        self.aside: Callable[[Callable[[], object]], None] = Aside()

    def signal(self) -> ThreadSignal:
        return ThreadSignal(self.now)

    def finish(
        self,
        work: Coroutine[Any, Any, T],
        until: float = math.inf,
        caller: object = None,  # noqa: ARG002  # nothing is ever left behind
    ) -> Coroutine[Any, Any, T]:
        """A blocking command always runs to its end; so it must not take too long."""
        return work if until == math.inf else within(work, until)

    async def settle(self, until: float) -> None:
        """Nothing is ever left behind."""

    def begins_to_wait(self) -> None:
        if runs_a_loop():
            _warn_of_stalled_loop()

    def deadline(self) -> float:
        return current.until

    def caller(self) -> Caller:
        try:
            caller: Caller = _local.caller
        except AttributeError:
            who = f"thread {threading.current_thread().name}"
            caller = _local.caller = Caller(who, new_party=new_party)
        return caller

    def alive(self, caller: Caller | None) -> bool:
        return caller is not None


def runs_a_loop() -> bool:
    """Whether the calling thread runs an event loop just now."""
    return cpython.running_loop() is not None


def _warn_of_stalled_loop() -> None:
    """Warn about the line outside of Locknut that made this thread wait."""
    import warnings  # asyncio has imported it, and nobody else needs it

    warnings.warn(_STALLED, BlockingInLoopWarning, stacklevel=_frames_of_ours() + 1)


def _frames_of_ours() -> int:
    """How many frames there are from the warning to the last one of this package, both included."""
    package, count = __name__.partition(".")[0], 0
    frame = cpython.caller_frame()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, count = frame.f_back, count + 1
    return count


def _keep(work: Coroutine[Any, Any, None]) -> None:
    """Run it, unless its starter was interrupted right then (Ctrl-C) and closed it again."""
    if getattr(work, "cr_frame", work) is None:
        return
    try:
        run(work)
    except (KeyboardInterrupt, SystemExit) as error:  # no code of users runs here: a signal's
        if not pass_on(error):
            raise


def start(work: Coroutine[Any, Any, None], name: str = "locknut-keeper") -> threading.Thread:
    """Run the keeper, or the recorder, on a thread of its own.

    While the interpreter exits there may be none to be had (CPython 3.12 on). A lock that an exit
    handler takes is then not renewed: its lease counts for its ttl. Otherwise there are too many
    threads, and the caller gets an error: a program may go on for long after its main thread.
    """
    thread = cpython.UnawaitedThread(target=_keep, args=(work,), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        if "interpreter shutdown" not in str(error):  # as every CPython says it
            raise BackendUnavailable(_NO_THREAD.format(name=name, error=error)) from error
        work.close()
    return thread


def forget_all() -> None:
    """In a forked child: the thread that goes on owns nothing."""
    _local.__dict__.clear()
