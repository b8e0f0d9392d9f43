"""APScheduler jobs that several schedulers have loaded: one of them runs each scheduled time."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.triggers.interval import IntervalTrigger

import locknut
from locknut import aio
from locknut.core.validation import Duration
from locknut.errors import ConfigurationError

_MADE_UP: Final = re.compile(r"[0-9a-f]{32}")
"""An id that APScheduler chose by chance."""
_LONE: Final = timedelta(days=1)
"""The length of a slot of which no next one is known."""


class Skipped:
    """What a job returns that another scheduler has run, or runs: see `event.retval`."""

    def __repr__(self) -> str:
        return "<skipped: another scheduler has this run>"

    def __bool__(self) -> bool:
        return False


SKIPPED: Final = Skipped()


class OnceThreadPoolExecutor(ThreadPoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """A thread pool whose jobs run once for each scheduled time, on all hosts with this engine.

    Two runs of one job never overlap, either. `at_most` ends the lock of a run that takes longer.
    """

    def __init__(
        self,
        max_workers: int = 10,
        *,
        locks: locknut.Locks | None = None,
        at_most: Duration | None = None,
        ttl: Duration | None = None,
    ):
        super().__init__(max_workers)
        self._locks = locks
        self._options: dict[str, Any] = {"at_most": at_most, "ttl": ttl}

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        locks = self._locks
        once = locknut.once if locks is None else locks.once
        times = _RunTimes(run_times)
        run = _blocking(job, functools.partial(once, **self._options), times)
        super()._do_submit_job(_Locked(job, run), times)


class OnceAsyncIOExecutor(AsyncIOExecutor):  # type: ignore[misc]  # the same
    """The same for coroutine functions, on the loop of an AsyncIOScheduler.

    A job that loses its lock is cancelled. `locks` is a `locknut.aio.Locks` of that loop.
    """

    def __init__(
        self,
        *,
        locks: aio.Locks | None = None,
        at_most: Duration | None = None,
        ttl: Duration | None = None,
    ):
        super().__init__()
        self._locks = locks
        self._options: dict[str, Any] = {"at_most": at_most, "ttl": ttl}

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        if not inspect.iscoroutinefunction(inspect.unwrap(_bare(job.func))):
            message = (
                f"job {job.id!r} is a plain function: OnceAsyncIOExecutor runs coroutine functions "
                "alone; give the job an executor of its own, a OnceThreadPoolExecutor"
            )
            raise ConfigurationError(message)
        locks = self._locks
        once = aio.once if locks is None else locks.once
        times = _RunTimes(run_times)
        run = _awaited(job, functools.partial(once, **self._options), times)
        super()._do_submit_job(_Locked(job, run), times)


class _RunTimes(list[datetime]):
    """The scheduled times of one submission; it notes which of them is being run.

    APScheduler goes through them one after the other, and tells the job's function nothing.
    """

    present: datetime

    def __iter__(self) -> Iterator[datetime]:
        for each in super().__iter__():
            self.present = each
            yield each


class _Locked:
    """A job with another function in place of its own."""

    def __init__(self, job: Any, func: Callable[..., Any]):
        self._job = job
        self.func = func

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)

    def __str__(self) -> str:
        return str(self._job)


def _blocking(job: Any, once: Callable[..., Any], times: _RunTimes) -> Callable[..., Any]:
    name = _name(job)

    def run(*args: Any, **kwargs: Any) -> Any:
        with once(name, **_slot(job.trigger, times.present)) as lease:
            return SKIPPED if lease is None else job.func(*args, **kwargs)

    return run


def _awaited(job: Any, once: Callable[..., Any], times: _RunTimes) -> Callable[..., Any]:
    name = _name(job)

    async def run(*args: Any, **kwargs: Any) -> Any:
        async with once(name, **_slot(job.trigger, times.present)) as lease:
            return SKIPPED if lease is None else await job.func(*args, **kwargs)

    return run


def _bare(function: Any) -> Any:
    return function.func if isinstance(function, functools.partial) else function


def _name(job: Any) -> str:
    """Return the name of the lock, which every scheduler has to make for itself."""
    if _MADE_UP.fullmatch(job.id):
        message = (
            f"job {job} has an id that APScheduler made up, and other schedulers made up another: "
            'give it one of its own, as in add_job(..., id="nightly-report")'
        )
        raise ConfigurationError(message)
    if _has_times_of_its_own(job.trigger):
        message = (
            f"job {job.id!r} has other run times in each scheduler, by jitter or by an interval in "
            f"a combination ({job.trigger}): use a cron trigger without jitter"
        )
        raise ConfigurationError(message)
    return f"job:{job.id}"


def _has_times_of_its_own(trigger: Any) -> bool:
    parts = getattr(trigger, "triggers", ())
    by_interval = any(isinstance(part, IntervalTrigger) for part in parts)
    return (
        bool(getattr(trigger, "jitter", None))
        or by_interval
        or any(_has_times_of_its_own(part) for part in parts)
    )


def _slot(trigger: Any, at: datetime) -> dict[str, Any]:
    """Return which slot a run is for, and how long it is: the same on every host.

    A cron trigger has the same times everywhere. An interval begins with its scheduler, unless it
    is told otherwise: there is one run for each multiple of the interval since 1970.
    """
    if isinstance(trigger, IntervalTrigger):
        per = trigger.interval
        begin = datetime(1970, 1, 1, tzinfo=UTC)
        return {"at": begin + (at - begin) // per * per, "per": per.total_seconds()}
    following = trigger.get_next_fire_time(at, at + timedelta(microseconds=1))
    per = _LONE if following is None else min(following - at, _LONE)
    return {"at": at, "per": per.total_seconds()}


__all__ = [
    "SKIPPED",
    "OnceAsyncIOExecutor",
    "OnceThreadPoolExecutor",
    "Skipped",
]
