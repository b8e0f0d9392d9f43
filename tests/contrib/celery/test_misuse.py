"""Tasks that are called without a worker, and decorators that are used in a wrong way."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

import locknut
from locknut.contrib.celery import current_lease, is_skipped, locked_task


@pytest.fixture
def app() -> Iterator[Any]:
    made: Any = Celery("misuse", broker="memory://", backend="cache+memory://")
    yield made
    made.close()


@pytest.fixture
def locks() -> Iterator[locknut.Locks]:
    with locknut.connect("memory:") as made:
        yield made


def test_a_call_as_a_function_has_the_lock_too(app: Any, locks: locknut.Locks) -> None:
    @app.task  # type: ignore[untyped-decorator]  # Celery has no types
    @locked_task("report:{day}", locks=locks)
    def report(day: str) -> str:
        return current_lease().name

    assert report("monday") == report.apply(args=["monday"]).get() == "report:monday"


@pytest.mark.parametrize("call", [lambda task: task("x"), lambda task: task.apply(("x",)).get()])
def test_a_call_that_cannot_come_back_later_raises(
    app: Any, locks: locknut.Locks, call: Any
) -> None:
    """`celery-once` drops such a call silently; with `self.retry` an eager one never ends."""

    @app.task  # type: ignore[untyped-decorator]  # the same
    @locked_task("{name}", locks=locks)
    def work(name: str) -> None: ...

    with locknut_holds(locks, "x"), pytest.raises(locknut.AcquireTimeout, match="'x' is held by"):
        call(work)


def locknut_holds(locks: locknut.Locks, name: str) -> Any:
    """As somebody else, so that it is not entered again."""
    return locks.lock(name, owner="somebody else")


def test_a_skip_is_an_event(app: Any, locks: locknut.Locks) -> None:
    @app.task  # type: ignore[untyped-decorator]  # the same
    @locked_task(on_busy="skip", locks=locks)
    def work(day: dt.date, *more: int, flag: bool = False) -> str:
        return current_lease().name

    day = dt.date(2026, 11, 17)
    name = work(day, 1)
    assert name != work(day, 2) != work(day, 1, flag=True) != name
    seen: list[locknut.Event] = []
    locks.on_event(seen.append)
    with locknut_holds(locks, name):
        assert is_skipped(work(day, 1))
    assert [event.kind for event in seen if event.kind == "skipped"] == ["skipped"]


def test_an_engine_that_is_away_fails_the_task_before_it_runs(app: Any) -> None:
    """`autoretry_for` is outside of the lock, so it tries again."""
    ran: list[str] = []
    with locknut.connect("redis://127.0.0.1:1") as nowhere:

        @app.task(autoretry_for=(locknut.BackendUnavailable,), max_retries=2, default_retry_delay=0)  # type: ignore[untyped-decorator]  # the same
        @locked_task("{name}", locks=nowhere)
        def work(name: str) -> None:
            ran.append(name)

        tried = work.apply(("x",))
        assert isinstance(tried.result, locknut.BackendUnavailable)
    assert not ran


def test_a_loss_is_told_by_a_call(app: Any, locks: locknut.Locks) -> None:
    told = threading.Event()

    @app.task  # type: ignore[untyped-decorator]  # the same
    @locked_task("{name}", locks=locks, on_lost=lambda _: told.set())
    def work(name: str) -> None:
        assert locks.force_release(name, reason="a test")
        assert told.wait(60)

    with pytest.raises(locknut.LeaseLost):
        work("x")


def test_arguments_without_a_digest_are_refused(app: Any, locks: locknut.Locks) -> None:
    """The `repr` of an object has its address: each process would have a lock of its own."""

    @app.task  # type: ignore[untyped-decorator]  # the same
    @locked_task(locks=locks)
    def work(thing: object) -> None: ...

    with pytest.raises(locknut.ConfigurationError, match="name the lock by what tells its calls"):
        work(object())


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(locknut.ConfigurationError, match="needs parentheses"):
        locked_task(test_wrong_options_are_refused_at_once)  # type: ignore[call-overload]
    with pytest.raises(locknut.ConfigurationError, match="one of retry, skip, raise"):
        locked_task("x", on_busy="wait")  # type: ignore[call-overload]
    with pytest.raises(locknut.ConfigurationError, match="ttl"):
        locked_task("x", ttl="soon")
    with pytest.raises(locknut.ConfigurationError, match="not an argument"):
        locked_task("report:{night}")(lambda day: day)


def test_there_is_no_lease_outside_of_a_task() -> None:
    with pytest.raises(locknut.NotHeld, match="@locked_task"):
        current_lease()
