"""Lock files and directories that somebody moves, links, swaps or removes while they are in use."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import locknut
from locknut.backends.file import line
from locknut.backends.file.backend import FileBackend
from locknut.core.values import Claim, Renewal
from locknut.errors import BackendError, ConfigurationError
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    DEADLINE,
    acquire,
    attempt,
    busy,
    claim,
    engine_in,
    open_descriptors,
    permit,
    reader,
    release,
    run,
    take,
)


def _file(directory: Path) -> Path:
    return next(path for path in directory.iterdir() if path.suffix in (".lock", ".permits"))


def _move_file(directory: Path) -> None:
    _file(directory).rename(directory.parent / "moved")


def _move_file_within(directory: Path) -> None:
    _file(directory).rename(directory / "moved")


def _move_directory(directory: Path) -> None:
    directory.rename(directory.parent / "elsewhere")


def _link_and_remove(directory: Path) -> None:
    os.link(_file(directory), directory.parent / "backup")
    _file(directory).unlink()


def _swap_directory(directory: Path) -> None:
    _move_directory(directory)
    directory.mkdir(mode=0o700)


def _remove_directory(directory: Path) -> None:
    shutil.rmtree(directory)


WAYS = [
    _move_file,
    _move_file_within,
    _move_directory,
    _link_and_remove,
    _swap_directory,
    _remove_directory,
]


@pytest.mark.parametrize("move", WAYS)
@pytest.mark.parametrize("make", [claim, reader, lambda: permit(1), lambda: claim(owner="o")])
def test_a_holder_learns_that_its_file_was_moved(
    directory: Path, move: Callable[[Path], None], make: Callable[[], Claim]
) -> None:
    backend, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, wanted = make(), make()._replace(owner=None)
    raw = take(backend, held)
    move(directory)
    assert take(other, wanted) > raw
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert not release(backend, held)


@pytest.mark.parametrize("move", WAYS)
def test_the_lease_is_lost_within_a_heartbeat(
    directory: Path, move: Callable[[Path], None]
) -> None:
    with locknut.connect(f"file://{directory}") as locks:
        lease = locks.lock("a").acquire()
        assert lease is not None
        move(directory)
        assert lease.lost.wait(DEADLINE)
        with pytest.raises(locknut.LeaseLost):
            lease.release()


@pytest.mark.parametrize("move", WAYS)
def test_a_release_tells_that_the_file_was_moved(
    directory: Path, move: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between two heartbeats, if it was held for longer than the 5 ms between two looks."""
    backend, held = engine_in(directory).blocking(ThreadRuntime()), claim()
    take(backend, held)
    move(directory)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10**9)
    assert not release(backend, held)


@pytest.mark.parametrize("move", WAYS)
def test_a_descriptor_that_was_kept_open_is_compared_with_the_path(
    directory: Path, move: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, other, held = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
        claim(),
    )
    take(backend, held)
    release(backend, held)
    move(directory)
    take(other, claim())
    real = time.time_ns  # a little later: the path is not looked at every time
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10**9)
    assert busy(backend, claim())


@pytest.mark.parametrize("move", WAYS)
def test_a_waiter_comes_to_the_file_that_counts(
    directory: Path, move: Callable[[Path], None]
) -> None:
    backend, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, wanted = claim(), claim()
    take(backend, held)
    assert busy(other, wanted)
    move(directory)
    assert run(acquire(other, wanted)) is not None
    assert run(backend.renew([held])) == [Renewal.LOST]
    release(backend, held)


def test_hard_links_to_lock_files_are_no_harm(backend: FileBackend, directory: Path) -> None:
    """`cp -al` and rsnapshot link every file of a directory they keep a copy of."""
    held, other = claim(), engine_in(directory).blocking(ThreadRuntime())
    raw = take(backend, held)
    os.link(_file(directory), directory.parent / "copy")
    assert run(backend.renew([held])) == [Renewal.HELD]
    assert busy(other, claim())
    assert release(backend, held)
    assert take(other, claim()) > raw


def test_a_break_leaves_the_linked_copy_alone(backend: FileBackend, directory: Path) -> None:
    held = claim()
    raw = take(backend, held)
    os.link(_file(directory), directory.parent / "copy")
    assert run(backend.break_hold("ns:a", raw))
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert take(backend, claim()) > raw


# -- the directory


def test_a_removed_directory_is_made_again_and_private(
    backend: FileBackend, directory: Path
) -> None:
    directory.chmod(0o750)
    take(backend, claim())
    _remove_directory(directory)
    take(backend, claim("ns:b"))
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_directory_swapped_for_an_open_one_is_refused(
    backend: FileBackend, directory: Path
) -> None:
    take(backend, claim())
    _move_directory(directory)
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(ConfigurationError, match="everybody"):
        take(backend, claim("ns:b"))
    assert list(directory.iterdir()) == []


def test_a_directory_swapped_for_a_link_to_an_open_one_is_refused(
    backend: FileBackend, directory: Path, tmp_path: Path
) -> None:
    take(backend, claim())
    _move_directory(directory)
    (tmp_path / "trap").mkdir()
    (tmp_path / "trap").chmod(0o777)
    directory.symlink_to(tmp_path / "trap")
    with pytest.raises(ConfigurationError, match="everybody"):
        take(backend, claim("ns:b"))
    assert list((tmp_path / "trap").iterdir()) == []


@pytest.mark.root
def test_a_directory_that_a_stranger_made_anew_is_refused(
    backend: FileBackend, directory: Path
) -> None:
    take(backend, claim())
    _swap_directory(directory)
    os.chown(directory, 1001, 1001)
    with pytest.raises(ConfigurationError, match="another user"):
        take(backend, claim("ns:b"))
    assert list(directory.iterdir()) == []


def test_a_directory_that_moved_behind_a_link_is_the_same(
    backend: FileBackend, directory: Path
) -> None:
    """An administrator moves it to another place and leaves a link."""
    held = claim()
    take(backend, held)
    _move_directory(directory)
    directory.symlink_to(directory.parent / "elsewhere")
    assert run(backend.renew([held])) == [Renewal.HELD]
    assert busy(backend, claim())
    take(backend, claim("ns:b"))
    assert len(list((directory.parent / "elsewhere").iterdir())) == 2


def test_a_directory_that_comes_and_goes_leaves_no_descriptor(directory: Path) -> None:
    before = open_descriptors()
    backend = engine_in(directory).blocking(ThreadRuntime())
    for name in range(5):
        held = claim(f"ns:{name}")
        take(backend, held)
        release(backend, held)
        shutil.rmtree(directory)
    run(backend.close())
    assert open_descriptors() <= before


# -- files that are in the way


def test_something_else_in_place_of_a_lock_file_is_refused(
    backend: FileBackend, directory: Path
) -> None:
    (directory / "ns=a.lock").mkdir()
    with pytest.raises(BackendError):
        take(backend, claim("ns:a"))
    os.mkfifo(directory / "ns=b.lock")
    with pytest.raises(BackendError, match="in the way"):
        take(backend, claim("ns:b"))


def test_no_message_says_to_move_a_file_that_may_be_held(
    backend: FileBackend, directory: Path
) -> None:
    take(backend, reader())
    _file(directory).write_bytes(b"locknut: acquired")
    with pytest.raises(BackendError, match="when no process uses it") as caught:
        take(engine_in(directory).blocking(ThreadRuntime()), reader())
    assert "move it away" not in str(caught.value)


def test_a_move_that_fails_halfway_leaves_no_descriptor_open(
    backend: FileBackend, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else knows the file that a waiter moves away from."""
    held, waiter = claim(), claim()
    take(backend, held)
    assert busy(backend, waiter)
    _move_file(directory)

    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    before = open_descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(line, "join", broken)
        with pytest.raises(BackendError, match="Input/output error"):
            attempt(backend, waiter)
    assert len(open_descriptors()) == len(before), "one for another: the waiter has moved"
    take(backend, waiter)
