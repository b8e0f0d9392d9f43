"""A hold that was broken, and is handed over inside its process before anybody there is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import locknut
from locknut.core import queueing
from locknut.guards.file import FileGuard
from tests.api.crowd import PATIENCE, Started


def break_it(locks: locknut.Locks, _: Path) -> None:
    assert locks.force_release("x")


def move_it(_: locknut.Locks, place: Path) -> None:
    (file,) = place.glob("*.lock")
    file.rename(file.with_suffix(".away"))


@pytest.mark.parametrize("end", [break_it, move_it])
def test_a_guard_refuses_the_heir_of_a_broken_hold(
    end: Callable[[locknut.Locks, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "COHORT_SECONDS", 1000.0)  # in place of the ten milliseconds
    place = tmp_path / "locks"
    with locknut.connect(f"file://{place}") as locks, locknut.connect(f"file://{place}") as others:
        locks._client.heartbeat = None  # it is told by its own renewal, at the end of this test
        former = locks.lock("x").acquire()
        assert former is not None
        end(others, place)
        newcomer = others.lock("x").acquire(timeout=PATIENCE)
        assert newcomer is not None
        FileGuard(tmp_path / "data").enter(newcomer)
        heir = handed_over(locks, former)

        assert former.fence < heir.fence < newcomer.fence
        with pytest.raises(locknut.StaleFence):
            FileGuard(tmp_path / "data").enter(heir)
        with pytest.raises(locknut.LeaseLost):
            heir.renew()
        assert newcomer.held
        newcomer.release()


def handed_over(locks: locknut.Locks, former: locknut.Lease) -> locknut.Lease:
    """What a thread gets that waits for the lock when it is released."""
    waiting = threading.Event()

    def note(event: locknut.Event) -> None:
        if event.kind == "waiting":
            waiting.set()

    def wait() -> locknut.Lease:
        lease = locks.lock("x").acquire(timeout=PATIENCE)
        assert lease is not None
        return lease

    locks.on_event(note)
    waiter = Started(wait)
    assert waiting.wait(PATIENCE)
    former.release()
    lease: locknut.Lease = waiter.result()
    return lease
