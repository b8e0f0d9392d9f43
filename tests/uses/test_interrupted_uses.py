"""Ctrl-C, or a cancellation, between the steps of `once` and of an election: nothing stays held.

`tests/api/stepping.py` interrupts them at every moment there is. These are the moments at which
something was lost once, or could be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.blocking import leadership
from locknut.faces.once_base import OnceBase
from locknut.faces.once_runs import OnceRuns
from tests.api import interrupting, stepped
from tests.uses.clock_on_the_wall import NOON, WallClock

PATIENCE = 30.0


class First:
    """Is raised by the first call of what it is put before, which does nothing then."""

    def __init__(self, error: type[BaseException] = KeyboardInterrupt):
        self.error = error
        self.raised = 0

    def _raise(self) -> None:
        if not self.raised:
            self.raised += 1
            raise self.error

    def call(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **options: Any) -> Any:
            self._raise()
            return real(*given, **options)

        return called

    def awaited(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def called(*given: Any, **options: Any) -> Any:
            self._raise()
            return await real(*given, **options)

        return called


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(monkeypatch)


def nothing_is_held(locks: locknut.Locks) -> None:
    assert not locks._client.holds
    assert not [info for info in locks.list() if "@" not in info.name]


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("begin", ["acquire", "__enter__"])
def test_an_interrupt_before_a_run_is_noted_gives_its_locks_back(
    begin: str, retry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locknut.connect(f"memory:not-noted-{begin}-{retry}") as locks:
        once = locks.once("job", per="15m", retry=retry)
        first = First()
        monkeypatch.setattr(OnceBase, "_begun", first.call(OnceBase._begun))
        with pytest.raises(KeyboardInterrupt):
            getattr(once, begin)()
        assert first.raised
        nothing_is_held(locks)
        assert once.scheduled is None
        with pytest.raises(locknut.NotHeld):
            once.release()


@pytest.mark.parametrize("skipped", [False, True])
def test_an_interrupt_after_a_run_is_noted_forgets_it(
    skipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory:noted-{skipped}"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        once, real = locks.once("job", per="15m", retry=True), OnceBase._begun
        if skipped:
            assert others.lock("job").acquire()

        def noted(*given: Any) -> None:
            real(*given)
            raise KeyboardInterrupt

        monkeypatch.setattr(OnceBase, "_begun", noted)
        with pytest.raises(KeyboardInterrupt):
            once.__enter__()
        assert not once._runs
        assert not locks._client.holds


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("leave", ["release", "__exit__"])
def test_an_interrupt_before_the_slot_is_settled_is_raised_when_all_is_released(
    leave: str, done: bool, wall: WallClock
) -> None:
    with locknut.connect(f"memory:not-settled-{leave}-{done}") as locks:
        once = locks.once("job", per="15m", retry=True)

        def end() -> None:
            if leave == "release":
                once.release(done=done)
            else:
                once.__exit__(None, None if done else ZeroDivisionError(), None)

        assert once.acquire() is not None
        with pytest.MonkeyPatch.context() as hit:
            first = First()
            hit.setattr(OnceRuns, "_settle", first.awaited(OnceRuns._settle))
            with pytest.raises(KeyboardInterrupt):
                end()
            assert first.raised
        nothing_is_held(locks)
        with locks.once("job", per="15m") as again:
            assert (again is None) == done, "a slot that was done is not run again, a failed one is"


def test_an_interrupt_before_a_term_begins_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with locknut.connect("memory:no-term") as locks:
        monkeypatch.setattr(leadership, "Term", First().call(leadership.Term))
        with pytest.raises(KeyboardInterrupt):
            next(locks.election("x").terms())
        nothing_is_held(locks)


def test_an_interrupt_before_a_term_ends_is_raised_when_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with locknut.connect("memory:term-goes-on") as locks:
        terms = locks.election("x").terms()
        next(terms)
        monkeypatch.setattr(leadership, "_end", First().call(leadership._end))
        with pytest.raises(KeyboardInterrupt):
            terms.close()  # type: ignore[attr-defined]  # a generator's
        nothing_is_held(locks)


def too_late_when_taken(wall: WallClock) -> None:
    """The slot is named, it is not too late, and when both locks are held it is."""
    wall.will_show(NOON, NOON, NOON + 86400)


def test_what_interrupts_one_release_keeps_no_other_hold(wall: WallClock) -> None:
    url = "memory:both-given-back"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        once = locks.once("job", per="15m", at=NOON)
        key = once._slot().key("job")
        with pytest.MonkeyPatch.context() as hit:
            first = First()
            for verb in ("release", "release_all"):
                backend: Any = locks._client.backend
                hit.setattr(backend, verb, first.awaited(getattr(backend, verb)))
            too_late_when_taken(wall)
            with pytest.raises(KeyboardInterrupt):
                once.acquire()
            assert first.raised
        assert others.lock("job").acquire(timeout=PATIENCE)
        assert others.lock(key).acquire(timeout=PATIENCE)


def test_what_cancels_one_release_keeps_no_other_hold(wall: WallClock) -> None:
    async def main() -> None:
        url = "memory:both-given-back-on-a-loop"
        async with aio.connect(url) as locks, aio.connect(url) as others:
            once = locks.once("job", per="15m", at=NOON)
            key = once._slot().key("job")
            with pytest.MonkeyPatch.context() as hit:
                first = First(asyncio.CancelledError)
                for verb in ("release", "release_all"):
                    backend: Any = locks._client.backend
                    hit.setattr(backend, verb, first.awaited(getattr(backend, verb)))
                too_late_when_taken(wall)
                with pytest.raises(asyncio.CancelledError):
                    await once.acquire()
                assert first.raised
            assert await others.lock("job").acquire(timeout=PATIENCE)
            assert await others.lock(key).acquire(timeout=PATIENCE)

    asyncio.run(main())


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("kind", stepped.USES)
def test_an_interrupt_at_each_moment_leaves_nothing_behind(kind: str) -> None:
    interrupting.stepping("memory:uses", kind, every=5)
