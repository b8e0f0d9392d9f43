"""Steps real coroutines by hand: what they wait for, how they are cancelled, how they die."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from locknut.core.callers import Caller
from locknut.core.pacing import GRACE
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from tests.simulation.process import Process

T = TypeVar("T")


class Cancelled(BaseException):
    """A task was told to stop, as by `asyncio.CancelledError` or Ctrl-C."""


class Died(BaseException):
    """The process of this task is no more: nothing it does from now on reaches anybody."""


class Future(Generic[T]):
    """What a task waits for; resolved once."""

    __slots__ = ("_callback", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callback: Callable[[], None] | None = None

    def resolve(self, value: T) -> None:
        if not self.done:
            self._value = value
            self._finish()

    def fail(self, error: BaseException) -> None:
        if not self.done:
            self._error = error
            self._finish()

    def on_done(self, callback: Callable[[], None] | None) -> None:
        self._callback = callback

    def _finish(self) -> None:
        self.done = True
        if self._callback is not None:
            self._callback()

    def __await__(self) -> Generator[Future[Any], None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # resolved, so it is a T


class Task:
    """One thread or task of a simulated process."""

    def __init__(self, process: Process, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.process = process
        self.name = name
        self.caller = Caller(name)
        self.done = False
        self.error: BaseException | None = None
        self.suspensions = 0
        self.on_suspend: Callable[[Task], None] | None = None
        self._work = work
        self._waits_for: Future[Any] | None = None
        self._cancel = False
        process.soon(self._step)

    def cancel(self) -> None:
        """Throw `Cancelled` where it waits, also if what it waits for has just come."""
        if self.done or self._cancel:
            return
        self._cancel = True
        if self._waits_for is not None and not self._waits_for.done:
            self._waits_for.on_done(None)
            self.process.soon(self._step)

    def cancel_when_woken(self) -> None:
        """Throw `Cancelled` instead of what it waits for, at the very moment when that comes."""
        self._cancel = not self.done

    def vanish(self) -> None:
        """The process died: unwind without a word to anybody."""
        self.done = True
        if self._waits_for is not None:
            self._waits_for.on_done(None)
        try:
            self._work.close()
        except (Died, RuntimeError):
            return

    def _step(self) -> None:
        if self.done:
            return
        world = self.process.world
        world.current = self
        try:
            awaited = self._work.throw(Cancelled()) if self._taken() else self._work.send(None)
        except StopIteration:
            self.done = True
        except Cancelled:
            self.done = True
        except BaseException as error:  # noqa: BLE001  # whoever started the task looks at it
            self.done = True
            self.error = error
        else:
            self._suspend(awaited)
        finally:
            world.current = None
            world.no_guard_is_held(self.name)
            if self.done:
                self.caller = Caller(
                    self.name
                )  # gone with the task, and what it held is abandoned (L11)

    def _taken(self) -> bool:
        cancelled, self._cancel = self._cancel, False
        return cancelled

    def _suspend(self, awaited: Future[Any]) -> None:
        self._waits_for = awaited
        self.suspensions += 1
        awaited.on_done(lambda: self.process.soon(self._step))
        if self.on_suspend is not None:
            self.on_suspend(self)


class Left(Exception):
    """A command took longer than its caller could wait."""

    def __init__(self, awaited: Future[Any], told: BaseException) -> None:
        super().__init__()
        self.awaited = awaited
        """What the work waits for."""
        self.told = told
        """What the caller is told."""


class Shield:
    """Lets no cancellation into the work of a task, and leaves work that takes too long."""

    def __init__(self, process: Process, until: float) -> None:
        self._process = process
        self._late = False
        self._gate: Future[None] = Future()
        self._timers: list[Callable[[], None]] = []
        if until != math.inf:
            self._leave_at(until)

    def _leave_at(self, until: float) -> None:
        self._timers.append(self._process.at(until, self._leave))

    def _leave(self) -> None:
        self._late = True
        self._gate.resolve(None)

    def call_off(self) -> None:
        for call_off in self._timers:
            call_off()

    @types.coroutine
    def finish(self, work: Coroutine[Any, Any, T]) -> Generator[Future[Any], None, T]:
        """Drive `work` as part of the calling task; tell of a cancellation at its end."""
        cancelled: Cancelled | None = None
        while True:
            try:
                awaited: Future[Any] = work.send(None)
            except StopIteration as end:
                if cancelled is not None:
                    raise cancelled from None
                return end.value  # type: ignore[no-any-return]  # what `work` returned
            except Exception:
                if cancelled is not None:
                    raise cancelled from None
                raise
            while not awaited.done:
                if self._late:
                    raise Left(awaited, cancelled or BackendUnavailable("no answer in time"))
                gate: Future[None] = Future()
                self._gate = gate
                awaited.on_done(partial(gate.resolve, None))
                try:
                    yield gate
                except Cancelled as error:
                    if cancelled is None:
                        self._leave_at(self._process.now() + GRACE)
                    cancelled = error


@types.coroutine
def to_the_end(
    work: Coroutine[Any, Any, Any], awaited: Future[Any], ended: Future[None]
) -> Generator[Future[Any], None, None]:
    """What is left of the work; nobody asks what comes of it."""
    try:
        while True:
            while not awaited.done:
                yield awaited
            awaited = work.send(None)
    except (StopIteration, Exception):  # noqa: BLE001  # nobody is told
        return
    finally:
        ended.resolve(None)
