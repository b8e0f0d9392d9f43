"""The one thread that runs a keeper: when it is started, when it ends, and what follows it.

It ends by itself when there is nothing to do, or when the client closes. Others can end it as well:
a time limit that raises in threads, the kill of a greenlet, and under gevent a Ctrl-C, which Python
raises in whichever greenlet runs. Then another thread follows, on another connection, and begins
anew: a program that went on would not be told that nobody renews its locks (L18).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from locknut.core import pacing
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from locknut.core.ports import Backend, Runtime

_TICKET = object()


class KeeperThread(ABC):
    """Runs what a keeper does; at most one thread at a time."""

    def __init__(self, runtime: Runtime, start: Callable[[Coroutine[Any, Any, None]], object]):
        self.runtime = runtime
        self.wake = runtime.signal()
        self._start = start
        self._closing = False
        self._tickets = [_TICKET]
        """The thread that takes the one ticket runs the keeper; one that ends puts it back."""
        self._failures = 0
        """How often in a row a look was broken off, or a thread ended."""
        self._backend: Backend | None = None
        """The connection of its own, while it runs."""

    @abstractmethod
    def open_backend(self) -> Backend:
        """Return a connection of its own."""

    @abstractmethod
    async def _look(self, backend: Backend) -> bool:
        """Do what is to be done now; False if it was broken off."""

    @abstractmethod
    async def _rest(self, backend: Backend) -> bool:
        """Sleep until there may be something to do; False to end for want of work."""

    @abstractmethod
    async def _clean_up(self, backend: Backend) -> None:
        """Do at least what cannot be left undone."""

    @abstractmethod
    def _begin_anew_later(self) -> bool:
        """Nobody knows what was done of the last look. True if there is anything to do."""

    def ring_if_possible(self) -> None:
        """Where no thread can be started now, who only leaves something to the keeper goes on: it
        may have to wake others. What is to be done stays where it is until the next ring.
        """
        with suppress(BackendUnavailable):
            self.ring()

    def ring(self) -> None:
        """Wake the keeper, or start it. BackendUnavailable: no thread can be started for it."""
        self.wake.notify()
        if self._tickets and self._take_ticket() and not self._closing:
            work = self.run()
            try:
                self._start(work)
            except BaseException:  # no thread to be had: the next ring tries again
                with suppress(ValueError):  # it runs already: the start was interrupted (Ctrl-C)
                    work.close()
                    self._tickets.append(_TICKET)
                raise

    def _take_ticket(self) -> bool:
        try:
            self._tickets.pop()  # atomic: of two threads that try, one gets it
        except IndexError:
            return False
        except BaseException:  # interrupted (Ctrl-C) with the ticket in hand
            self._tickets.append(_TICKET)
            raise
        return True

    def stop(self) -> None:
        self._closing = True
        self.wake.notify()

    async def run(self) -> None:
        """Until there is nothing to do for a while, or the client closes."""
        backend: Backend | None = None
        ours = True
        try:
            await self._pause()
            self._backend = backend = self.open_backend()
            while not self._closing:
                backend = self._backend  # commands may be timed from now on: see `exchange`
                went_well = await self._look(backend)
                if not await self._rest(backend):
                    ours = False  # no call in between: an interrupt finds it ours, or put back
                    self._tickets.append(_TICKET)
                    # A ring between the put-back and this look is ours if we get the ticket again.
                    ours = await self.wake.wait(0.0) and self._take_ticket()
                    if not ours:
                        return
                if went_well:
                    self._failures = 0
            await self._clean_up(backend)
        except GeneratorExit:  # it was closed, and nobody goes on
            raise
        except BaseException:
            self._leave_to_another(ours=ours)
            raise
        finally:
            if backend is not None:
                await backend.close()  # and what is on its way there is nobody's answer

    def _leave_to_another(self, *, ours: bool) -> None:
        """First of all, because to close a connection may take its time."""
        self._failures += 1
        if ours:
            self._tickets.append(_TICKET)
        if self._begin_anew_later():
            self.ring_if_possible()

    async def _pause(self) -> None:
        """Whoever follows one that failed waits a little, however often it is rung."""
        until = self.runtime.now() + self._backoff()
        while self.runtime.now() < until and not self._closing:
            await self.wake.wait(until)

    def _backoff(self) -> float:
        """Not at all for the first time; then longer and longer, because it may fail for ever."""
        tries = self._failures - 1
        return pacing.backoff(tries, self.runtime.random()) if tries > 0 else 0.0
