"""How a test of the suite runs, waits and does several things at once, in either colour."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import locknut
from locknut import aio
from locknut.core.ports import Backend, Engine, Runtime
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.testing.conformance.awaitable_face import awaited, bare

PATIENCE = 20.0
"""How long a test waits for what must happen before it calls it a failure."""
GLANCE = 0.005
"""How often something without an event of its own is looked at."""

Work = Coroutine[Any, Any, Any]


class Gate(Protocol):
    """Opened once, from any thread; then all waiters go on."""

    def open(self) -> None: ...

    def is_open(self) -> bool: ...

    async def passed(self, timeout: float = PATIENCE) -> bool: ...


class Worker(Protocol):
    """Something that goes on beside the test: a thread, or a task."""

    async def result(self, timeout: float = PATIENCE) -> Any:
        """What it returned, or what it raised."""


class Colour(Protocol):
    """One of the two ways to use Locknut."""

    name: str

    def run(self, work: Work) -> Any: ...

    def locks(self, engine: Engine, settings: Any) -> Any: ...

    def backend(self, engine: Engine) -> Backend: ...

    def runtime(self) -> Runtime: ...

    def all_of(self, *locks: Any, timeout: Any = None) -> Any: ...

    def spawn(self, work: Callable[[], Work]) -> Worker: ...

    def gate(self) -> Gate: ...

    async def pause(self, seconds: float) -> None: ...

    def here(self) -> object:
        """The thread (blocking) or the loop (asyncio) in which this is called."""


class _ThreadGate:
    def __init__(self) -> None:
        self._event = threading.Event()
        self.open = self._event.set
        self.is_open = self._event.is_set

    async def passed(self, timeout: float = PATIENCE) -> bool:
        return self._event.wait(timeout)


class _ThreadWorker:
    def __init__(self, work: Callable[[], Work]):
        self._outcome: list[Callable[[], Any]] = []
        self._thread = threading.Thread(target=self._work, args=(work,), daemon=True)
        self._thread.start()

    def _work(self, work: Callable[[], Work]) -> None:
        try:
            result = run(work())
        except BaseException as error:  # noqa: BLE001  # it is the test's to judge
            self._outcome.append(partial(_throw, error))
        else:
            self._outcome.append(lambda: result)

    async def result(self, timeout: float = PATIENCE) -> Any:
        self._thread.join(timeout)
        assert self._outcome, f"still not done after {timeout} s"
        return self._outcome[0]()


def _throw(error: BaseException) -> None:
    raise error


class Blocking:
    """Plain calls and threads."""

    name = "blocking"

    def run(self, work: Work) -> Any:
        return run(work)

    def locks(self, engine: Engine, settings: Any) -> Any:
        return awaited(locknut.Locks(engine, settings))

    def backend(self, engine: Engine) -> Backend:
        return engine.blocking(self.runtime())

    def runtime(self) -> Runtime:
        return ThreadRuntime()

    def all_of(self, *locks: Any, timeout: Any = None) -> Any:
        return awaited(locknut.all_of(*map(bare, locks), timeout=timeout))

    def spawn(self, work: Callable[[], Work]) -> Worker:
        return _ThreadWorker(work)

    def gate(self) -> Gate:
        return _ThreadGate()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # the blocking colour

    def here(self) -> object:
        return threading.get_ident()


class _LoopGate:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.is_open = self._event.is_set

    def open(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def passed(self, timeout: float = PATIENCE) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class _TaskWorker:
    def __init__(self, work: Callable[[], Work]):
        self._task = asyncio.get_running_loop().create_task(_call(work))

    async def result(self, timeout: float = PATIENCE) -> Any:
        async with asyncio.timeout(timeout):
            return await asyncio.shield(self._task)


async def _to_its_end(work: Work) -> Any:
    """It fails, or is cut off, for one reason. What its workers make of that is not printed too:
    their Locks were closed under them.
    """
    try:
        return await work
    except BaseException:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        raise


async def _call(work: Callable[[], Work]) -> Any:
    """In the worker's own task: what is called before belongs to its caller."""
    return await work()


class Asyncio:
    """Coroutines and tasks on one loop."""

    name = "asyncio"

    def run(self, work: Work) -> Any:
        return asyncio.run(_to_its_end(work))

    def locks(self, engine: Engine, settings: Any) -> Any:
        return aio.Locks(engine, settings)

    def backend(self, engine: Engine) -> Backend:
        return engine.asyncio(self.runtime())

    def runtime(self) -> Runtime:
        return LoopRuntime()

    def all_of(self, *locks: Any, timeout: Any = None) -> Any:
        return aio.all_of(*locks, timeout=timeout)

    def spawn(self, work: Callable[[], Work]) -> Worker:
        return _TaskWorker(work)

    def gate(self) -> Gate:
        return _LoopGate()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def here(self) -> object:
        return asyncio.get_running_loop()


COLOURS: dict[str, Callable[[], Colour]] = {"blocking": Blocking, "asyncio": Asyncio}
