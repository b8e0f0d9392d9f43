"""The plainer engine, and what others do to its files: moved, broken, cleaned, of other users."""

from __future__ import annotations

import errno
import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut.backends.file import burial, file_layout, open_engine
from locknut.backends.file.flock_engine import FlockEngine
from locknut.backends.file.folder import EVERY
from locknut.core.values import Claim, Renewal
from locknut.errors import ConfigurationError
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    DEADLINE,
    Place,
    claim,
    open_descriptors,
    reader,
    release,
    run,
    take,
)
from tests.backends.file.sticky_directories import (
    a_break_by_another_user_does_no_harm,
    cleaning_by_another_user_does_no_harm,
)
from tests.backends.file.users import by_user, shared_directory


@pytest.fixture(autouse=True)
def _plainer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locknut.backends.file.ofd_locks.works", lambda _: False)


def engine_in(directory: Path) -> FlockEngine:
    made = open_engine(Place(str(directory)))
    assert isinstance(made, FlockEngine)
    return made


# -- moved


def _file(directory: Path) -> Path:
    return next(directory.glob("*.flock"))


def _move_file(directory: Path) -> None:
    _file(directory).rename(directory.parent / "moved")


def _move_directory(directory: Path) -> None:
    directory.rename(directory.parent / "elsewhere")


def _link_and_remove(directory: Path) -> None:
    os.link(_file(directory), directory.parent / "backup")
    _file(directory).unlink()


def _replace_by_a_link(directory: Path) -> None:
    _move_file(directory)
    (directory / "ns=a.flock").symlink_to(directory.parent / "moved")


WAYS = [_move_file, _move_directory, _link_and_remove, _replace_by_a_link]


@pytest.mark.parametrize("make", [claim, reader])
@pytest.mark.parametrize("move", WAYS)
def test_a_holder_learns_that_its_file_was_moved(
    directory: Path, move: Callable[[Path], None], make: Callable[[], Claim]
) -> None:
    backend, held, other = engine_in(directory).blocking(ThreadRuntime()), make(), make()
    take(backend, held)
    take(backend, released := claim("ns:b"))
    move(directory)
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert not release(backend, held)
    release(backend, released)
    if move is not _replace_by_a_link:
        take(backend, other)


def test_a_holder_that_may_not_look_holds_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, held = engine_in(directory).blocking(ThreadRuntime()), claim()
    take(backend, held)
    path, real = str(_file(directory)), os.stat

    def refuse(where: Any, **named: Any) -> os.stat_result:
        if where == path:
            raise PermissionError(13, "Permission denied")
        return real(where, **named)

    monkeypatch.setattr(os, "stat", refuse)
    assert run(backend.renew([held])) == [Renewal.HELD]
    assert release(backend, held)
    take(backend, claim())


@pytest.mark.root
def test_a_directory_that_a_stranger_made_anew_is_refused(directory: Path) -> None:
    backend = engine_in(directory).blocking(ThreadRuntime())
    take(backend, claim())
    _move_directory(directory)
    directory.mkdir(mode=0o700)
    os.chown(directory, 1001, 1001)
    with pytest.raises(ConfigurationError, match="another user"):
        take(backend, claim("ns:b"))


def test_an_engine_that_is_dropped_leaves_no_descriptor(directory: Path) -> None:
    before = open_descriptors()
    engine = engine_in(directory)
    held = claim()
    take(engine.blocking(ThreadRuntime()), held)
    release(engine.blocking(ThreadRuntime()), held)
    del engine
    gc.collect()
    assert open_descriptors() <= before


# -- broken


@pytest.mark.parametrize("make", [claim, reader])
def test_the_number_is_carried_over_a_break(
    directory: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Claim]
) -> None:
    """Also where the clock was set back, so that it says nothing."""
    backend = engine_in(directory).blocking(ThreadRuntime())
    real = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + 10**15)
        raw = take(backend, make())
    assert run(backend.break_hold("ns:a", raw))
    assert take(backend, claim()) == raw + 1
    assert not list(directory.glob("*.new"))


@pytest.mark.parametrize("terms", [{}, {"ttl": 60}, {"ttl": 60, "auto_renew": False}], ids=str)
def test_a_break_is_noticed_whatever_the_ttl(directory: Path, terms: dict[str, float]) -> None:
    url = f"file://{directory}"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        lease = locks.lock("x", **terms).acquire()  # type: ignore[arg-type]
        assert lease is not None
        assert others.force_release("x")
        assert lease.lost.wait(DEADLINE / 2)
        assert lease.reason == "taken"


@pytest.mark.parametrize("kind", ["lock", "read"])
def test_a_broken_holder_is_told_who_did_it_and_why(directory: Path, kind: str) -> None:
    url = f"file://{directory}"
    with locknut.connect(url) as locks, locknut.connect(url, label="ann") as others:
        lock = locks.lock("x") if kind == "lock" else locks.rwlock("x").read()
        lease = lock.acquire()
        assert lease is not None
        with pytest.raises(locknut.StaleFence):
            others.force_release("x", fence=lease.fence + 32, reason="not this one")
        lease.renew()
        assert others.force_release("x", reason="stuck")
        assert lease.lost.wait(DEADLINE / 2)
        assert lease.reason == "broken: stuck (by ann)"
        again = others.lock("x").acquire(timeout=DEADLINE / 2)
        assert again is not None
        assert locks.force_release("x")
        assert again.lost.wait(DEADLINE / 2)
        assert again.reason == "taken", "the note was for another hold"


def test_a_note_that_cannot_be_written_or_read_hinders_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    backend = engine_in(directory).blocking(ThreadRuntime())
    held = claim()
    raw = take(backend, held)
    monkeypatch.setattr(burial, "_write_note", fails)
    assert run(backend.break_hold("ns:a", raw, "stuck"))
    monkeypatch.setattr(burial, "_parse_note", fails)
    assert run(backend.renew([held])) == [Renewal.LOST]


# -- other users


@pytest.mark.root
def test_in_a_sticky_directory_a_break_by_another_user_does_no_harm() -> None:
    a_break_by_another_user_does_no_harm(engine_in)


@pytest.mark.root
def test_in_a_sticky_directory_cleaning_by_another_user_does_no_harm() -> None:
    cleaning_by_another_user_does_no_harm(engine_in)


@pytest.mark.root
def test_a_burial_that_its_finder_may_not_finish_is_called_off() -> None:
    with shared_directory(0o3770) as directory:

        def use() -> bool:
            with locknut.connect(f"file://{directory}").lock("a", timeout=DEADLINE):
                return True

        assert by_user(1001, use) is True
        with _file(directory).open("r+b") as file:
            file.seek(file_layout.GRAVE)
            file.write(file_layout.REMOVED)
        by_user(1002, use)  # whoever finds it may be told so, but only once
        assert by_user(1002, use) is True


@pytest.mark.root
def test_who_may_not_look_is_not_told_that_it_is_free() -> None:
    with shared_directory(0o770) as directory:
        take(engine_in(directory).blocking(ThreadRuntime()), claim("locknut:a"))
        os.chown(_file(directory), 1001, 1001)

        def ask() -> bool:
            with locknut.connect(f"file://{directory}") as locks:
                return locks.lock("a").locked()

        assert "Permission denied" in by_user(1002, ask)


# -- old files


def _use(engine: FlockEngine, name: str) -> None:
    held = claim(name)
    take(engine.blocking(ThreadRuntime()), held)
    release(engine.blocking(ThreadRuntime()), held)


@pytest.fixture
def old(directory: Path) -> Iterator[Callable[[], int]]:
    """So many files that nobody has used for days are left."""
    engine = engine_in(directory)
    for name in range(100):
        _use(engine, f"ns:old-{name}")
    for path in directory.glob("*.flock"):
        os.utime(path, (0, 0))
    yield lambda: len(list(directory.glob("*old-*")))
    run(engine.blocking(ThreadRuntime()).close())


def _use_new(engine: FlockEngine, directory: Path, name: int) -> None:
    """Its file goes at once, so that looks always find old ones."""
    _use(engine, f"ns:new-{name}")
    for path in directory.glob("*new-*"):
        path.unlink()


def test_old_files_are_removed_in_passing(directory: Path, old: Callable[[], int]) -> None:
    engine, held = engine_in(directory), claim("ns:old-7")
    take(engine.blocking(ThreadRuntime()), held)  # an old file that is in use stays
    for name in range(3 * EVERY):  # each look is at 64 files, of which at most 2 stay
        _use_new(engine, directory, name)
    assert old() == 1
    assert run(engine.blocking(ThreadRuntime()).renew([held])) == [Renewal.HELD]


def test_processes_that_make_one_file_each_remove_old_files_too(
    directory: Path, old: Callable[[], int]
) -> None:
    for name in range(40 * EVERY):  # one in 32 looks: fewer than two once in 10^16 runs
        _use_new(engine_in(directory), directory, name)
        if not old():
            break
    assert old() == 0


def test_a_foreign_file_is_not_removed(directory: Path) -> None:
    engine = engine_in(directory)
    (directory / "diary.flock").write_text("my diary")
    os.utime(directory / "diary.flock", (0, 0))
    assert engine.clean(unused_for=0.0) == 0
    assert (directory / "diary.flock").exists()
