"""The asyncio colour: a command ends by its own limit, and closing does not block the loop."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import suppress

from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.backends.zookeeper.session import CLOSE_PATIENCE, LIMIT, Session
from locknut.core.ports import Runtime, Signal
from locknut.runtimes import cpython
from locknut.runtimes.loop import LoopRuntime


class AsyncioBackend(ZooKeeperBackend):
    """For tasks."""

    def __init__(self, session: Session, runtime: Runtime):
        super().__init__(session, runtime)
        self._runtime = runtime
        self.signal = self._signal_here

    def _signal_here(self) -> Signal:
        """A Locks whose loop was closed is closed on another one: then that one is woken."""
        if not self._runtime.elsewhere:
            return self._runtime.signal()
        here = LoopRuntime(self.now)
        here.loop  # noqa: B018  # from now on it belongs to the loop that runs here
        return here.signal()

    def _until(self) -> float:
        return self.now() + LIMIT

    async def close(self) -> None:
        if self._leaving.detach() is not None:
            closing = self.session.leave()
            if closing is not None:
                closed = self.signal()
                waiting = cpython.UnawaitedThread(
                    target=_after, args=(closing, closed.notify), daemon=True
                )
                with suppress(RuntimeError):  # no thread is to be had: it closes behind our back
                    waiting.start()
                    await closed.wait(self.now() + CLOSE_PATIENCE)

    def dropped(self) -> None:
        """Nobody closed it: the session ends all the same, on a thread of its own."""
        if self._leaving.detach() is not None:
            connected = self.session.connected
            self.session.leave()  # before the warning, which may be an error
            if connected:
                message = "a locknut.aio.Locks was dropped without `await locks.close()`"
                warnings.warn(message, ResourceWarning, stacklevel=2)


def _after(closing: threading.Thread, notify: Callable[[], None]) -> None:
    closing.join()
    notify()
