"""The blocking face of `once`: at most one run for each slot of a schedule, across all hosts."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import ParamSpec, TypeVar

from locknut.blocking.lease import Lease, on_interrupt, release_on_exit
from locknut.errors import LocknutError
from locknut.faces.misuse import for_with
from locknut.faces.once_base import Run
from locknut.faces.once_runs import OnceRuns
from locknut.runtimes.threads import run

P = ParamSpec("P")
R = TypeVar("R")


@for_with
class Once(OnceRuns[Lease]):
    """At most one run for each slot: `with` gives a lease, or None where nothing is to be done."""

    __module__ = "locknut"  # in reprs: users know no other place

    @staticmethod
    def _caller() -> object:
        return threading.get_ident()

    def acquire(self) -> Lease | None:
        """Begin the run of this slot: return its lease, or None if it is not to be run here."""
        return self._start(note_skip=False)

    def _start(self, *, note_skip: bool) -> Lease | None:
        started: Run[Lease] = Run()
        try:
            run(self._begin(started))
            return self._begun(started) if started.acquired or note_skip else None
        except BaseException:
            run(self._undo(started))
            raise

    def release(self, *, done: bool = True) -> None:
        """End the run. With `retry`, a slot that is not `done` is free for another run."""
        ended: Run[Lease] | None = None
        try:
            ended = self._ended()
            run(self._end(ended, done=done))
        except BaseException as error:
            on_interrupt(error, self._end_again, ended, done)
            raise

    def _end_again(self, ended: Run[Lease] | None, done: bool) -> None:
        """Finish an interrupted end."""
        with suppress(LocknutError):
            ended = ended or self._ended()
            if ended.acquired:
                mark, lease = ended.mark, ended.lease
                if mark is not None and mark._ended is None:
                    with suppress(LocknutError):
                        run(self._settle(ended, done=done))
                lease._release_again(ended.entered)

    def __enter__(self) -> Lease | None:
        return self._start(note_skip=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ended: Run[Lease] | None = None
        try:
            ended = self._ended()
            if ended.acquired:
                self._leave(ended, error)
        except BaseException as raised:
            on_interrupt(raised, self._end_again, ended, error is None)
            raise

    def _leave(self, ended: Run[Lease], error: BaseException | None) -> None:
        try:
            run(self._settle(ended, done=error is None))
        except BaseException as failed:
            release_on_exit(ended.lease, failed)
            raise
        release_on_exit(ended.lease, error)

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | None]:
        """Decorate a function: it runs once for each slot, and returns None where it is skipped."""
        made = self._for_call(function, coroutine=False)

        @functools.wraps(function)
        def once(*args: P.args, **kwargs: P.kwargs) -> R | None:
            with made(*args, **kwargs) as lease:
                return None if lease is None else function(*args, **kwargs)

        return once
