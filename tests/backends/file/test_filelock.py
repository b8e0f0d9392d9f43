"""Beside the real filelock: what docs/migrating/files.md says of both is so, line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import pytest

import locknut
from locknut import aio

PATIENCE = 60.0
Make = Callable[..., Any]


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[locknut.Locks]:
    with locknut.connect(f"file://{tmp_path}/locks") as made:
        yield made


@pytest.fixture(params=["filelock", "locknut"])
def make(request: pytest.FixtureRequest, locks: locknut.Locks, tmp_path: Path) -> Make:
    """Another object for the same lock each time."""
    if request.param == "filelock":
        return lambda **options: filelock.FileLock(tmp_path / "report.lock", **options)
    return lambda **options: locks.lock("report", **options)


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Callable[[], object]], Any]]:
    """In another thread, always the same one, to the end."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda work: thread.submit(work).result(PATIENCE)


def test_with_excludes_and_a_timeout_is_a_timeout_error(
    make: Make, elsewhere: Callable[[Callable[[], object]], Any]
) -> None:
    def enter() -> None:
        with make(timeout=0.1):
            raise AssertionError

    with make(timeout=5), pytest.raises(TimeoutError) as caught:
        elsewhere(enter)
    assert type(caught.value) in {filelock.Timeout, locknut.AcquireTimeout}


def test_one_object_is_re_entrant_in_both(make: Make) -> None:
    lock = make()
    with lock:
        with lock:
            pass
        assert holds(lock)
    assert not holds(lock)


def test_a_timeout_below_zero_waits_for_ever_in_both(make: Make) -> None:
    lock, began = make(timeout=-1), make()
    with ThreadPoolExecutor(1) as other:
        with began:
            waiting = other.submit(lambda: entered(lock))
            assert not waiting.done()
        assert waiting.result(PATIENCE)


def test_whether_this_thread_holds_it_is_asked_of_the_object(
    make: Make, elsewhere: Callable[[Callable[[], object]], Any]
) -> None:
    lock = make()
    with lock:
        assert holds(lock)
        assert not elsewhere(lambda: holds(lock))
    assert not holds(lock)


def test_acquire_without_success_raises_there_and_is_none_here(
    locks: locknut.Locks, tmp_path: Path, elsewhere: Callable[[Callable[[], object]], Any]
) -> None:
    theirs = filelock.FileLock(tmp_path / "report.lock")
    ours = locks.lock("report")
    with theirs, ours:
        attempts: list[dict[str, Any]] = [{"blocking": False}, {"timeout": 0}, {"timeout": 0.05}]
        for options in attempts:
            with pytest.raises(filelock.Timeout):
                elsewhere(partial(theirs.acquire, **options))
            assert elsewhere(partial(ours.acquire, **options)) is None


def test_two_objects_of_one_lock_are_one_lock_here(locks: locknut.Locks, tmp_path: Path) -> None:
    path = tmp_path / "report.lock"
    with filelock.FileLock(path), pytest.raises((filelock.Timeout, RuntimeError)):
        filelock.FileLock(path).acquire(timeout=0)
    with locks.lock("report"), locks.lock("report") as again:
        assert again.held


def test_a_poll_interval_is_refused_with_a_reason(locks: locknut.Locks, tmp_path: Path) -> None:
    filelock.FileLock(tmp_path / "report.lock").acquire(poll_interval=0.01).lock.release()
    theirs: dict[str, Any] = {"poll_interval": 0.01}
    with pytest.raises(TypeError, match="waiters are woken here"):
        locks.lock("report").acquire(**theirs)


def test_they_do_not_exclude_each_other(tmp_path: Path) -> None:
    """Not even where the path is the very file of our lock."""
    with locknut.connect(f"file://{tmp_path}") as locks, locks.lock("report"):
        (ours,) = [each for each in tmp_path.rglob("*report*") if each.is_file()]
        with filelock.FileLock(tmp_path / "report.lock", timeout=0):
            assert locks.lock("report").held
        assert ours.exists()


def test_asyncio(tmp_path: Path) -> None:
    async def story() -> None:
        async with aio.connect(f"file://{tmp_path}/locks") as locks:
            theirs: Callable[[], Any] = lambda: filelock.AsyncFileLock(  # noqa: E731
                tmp_path / "report.lock", timeout=0.05
            )
            ours = lambda: locks.lock("report", timeout=0.05)  # noqa: E731
            for make, told in ((theirs, filelock.Timeout), (ours, locknut.AcquireTimeout)):
                async with make():
                    other = asyncio.create_task(enter(make()))
                    with pytest.raises(told):
                        await other
                await enter(make())

    asyncio.run(story())


async def enter(lock: Any) -> None:
    async with lock:
        pass


def entered(lock: Any) -> bool:
    with lock:
        return holds(lock)


def holds(lock: Any) -> bool:
    return bool(lock.is_locked if isinstance(lock, filelock.BaseFileLock) else lock.held)
