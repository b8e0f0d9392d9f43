"""An event loop in a thread of its own, which others ask to do something or to tell them when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 30.0


class LoopThread:
    """Whatever belongs to the loop is touched in its thread alone, so nothing needs a mutex."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.SelectorEventLoop()  # not uvloop, also where that is the policy
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """End the thread; a second time does nothing."""
        if self.closed:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """From another thread: its result, once it is done there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def call(self, work: Callable[[], T]) -> T:
        """The same for a plain function."""

        async def do() -> T:
            return work()

        return self.run(do())

    def wait(self, question: Callable[[], bool], what: str, timeout: float) -> None:
        """From another thread: until the answer is yes; it is asked after every `tell`."""
        met: Future[None] = Future()

        def begin() -> None:
            self._waiting.append((question, met))
            self.tell()

        self.call(begin)
        try:
            met.result(timeout)
        except TimeoutError:
            met.cancel()
            raise TimeoutError(f"not seen within {timeout} s: {what}") from None

    def tell(self) -> None:
        """Something has happened, and somebody may have waited for just this."""
        still = []
        for question, met in self._waiting:
            if met.cancelled():
                continue
            if question():
                if met.set_running_or_notify_cancel():
                    met.set_result(None)
            else:
                still.append((question, met))
        self._waiting = still
