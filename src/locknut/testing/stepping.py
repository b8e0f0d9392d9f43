"""Steps real coroutines by hand: what they wait for, how they are cancelled, how they die."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from locknut.core.holding import Mine

if TYPE_CHECKING:
    from locknut.testing.process import Process

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
        self.mine = Mine(name)
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
                self.mine = Mine(
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


@types.coroutine
def to_its_end(work: Coroutine[Any, Any, T]) -> Generator[Future[Any], None, T]:
    """Drive `work` as part of the calling task, but let no cancellation in; then tell it."""
    cancelled: Cancelled | None = None
    while True:
        try:
            awaited = work.send(None)
        except StopIteration as end:
            if cancelled is not None:
                raise cancelled from None
            return end.value  # type: ignore[no-any-return]  # what `work` returned
        except Exception:
            if cancelled is not None:
                raise cancelled from None
            raise
        while not awaited.done:
            try:
                yield awaited
            except Cancelled as error:
                cancelled = error
