"""Full disks, damaged and foreign files, other users, old files: what it costs, and whom."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import locknut
from locknut.backends.file import file_layout
from locknut.backends.file.backend import FileBackend
from locknut.backends.file.folder import EVERY
from locknut.core.values import Busy, Claim, Granted, Renewal
from locknut.runtimes import this_boot
from locknut.runtimes.threads import ThreadRuntime, ThreadSignal
from tests.backends.file.driving import (
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
from tests.backends.file.sticky_directories import (
    a_break_by_another_user_does_no_harm,
    cleaning_by_another_user_does_no_harm,
)
from tests.backends.file.users import by_user, shared_directory

# -- damaged files


def test_a_reader_is_kept_out_whatever_became_of_the_record(
    backend: FileBackend, directory: Path
) -> None:
    """Not the data decides who holds, but the kernel."""
    held = claim(owner="o")
    take(backend, held)
    os.truncate(next(directory.iterdir()), 0)
    assert busy(backend, reader())
    assert busy(backend, claim(owner="another"))
    assert run(backend.renew([held])) == [Renewal.HELD]


def test_permits_are_counted_whatever_became_of_the_file(
    backend: FileBackend, directory: Path
) -> None:
    held = [permit(3) for _ in range(3)]
    for one in held:
        take(backend, one)
    assert run(backend.break_hold("ns:a", None))  # from now on they are counted one by one
    others = [permit(3) for _ in range(3)]
    for one in others:
        take(backend, one)
    path = next(directory.iterdir())
    content = path.read_bytes()
    os.truncate(path, file_layout.SLOTS)
    path.write_bytes(content[: file_layout.SLOTS])
    assert busy(backend, permit(3))


def test_a_damaged_lock_that_is_held_can_be_seen_and_broken(
    backend: FileBackend, directory: Path
) -> None:
    held = claim()
    take(backend, held)
    os.truncate(next(directory.iterdir()), 0)
    assert run(backend.inspect("ns:a"))[0].holders
    assert run(backend.break_hold("ns:a", None))
    assert run(backend.renew([held])) == [Renewal.LOST]
    take(backend, claim())


def test_a_waiter_sleeps_whatever_became_of_the_record(
    backend: FileBackend, directory: Path
) -> None:
    """It asked again at once, for ever: there was no number that could differ from none. So it was
    with a holder that was stopped before its first record was written.
    """
    held, wanted = claim(), claim()
    take(backend, held)
    os.truncate(next(directory.iterdir()), 0)
    with backend.watch(wanted, ThreadSignal):
        for _ in range(3):
            answer = attempt(backend, wanted)
            assert isinstance(answer, Busy)
            assert answer.retry_in > 0.01
    release(backend, wanted)


def _bad_files(directory: Path) -> None:
    (directory / "link.lock").symlink_to(directory / "nowhere")
    (directory / "loop.lock").symlink_to("loop.lock")
    (directory / "folder.lock").mkdir()
    os.mkfifo(directory / "pipe.lock")
    content = bytearray(file_layout.KEY + 16)
    content[file_layout.KEY : file_layout.KEY + 4] = (3).to_bytes(4, "little")
    content[file_layout.KEY + 4 : file_layout.KEY + 7] = b"\xff\xfe\xfd"
    (directory / "key.lock").write_bytes(bytes(content))
    (directory / "key.lock").chmod(0o600)


def test_one_bad_file_does_not_keep_the_others_from_being_listed(
    backend: FileBackend, directory: Path
) -> None:
    take(backend, claim())
    _bad_files(directory)
    before = open_descriptors()
    assert [info.name for info in run(backend.inspect())] == ["ns:a"]
    assert open_descriptors() <= before


def test_bad_files_do_not_disturb_who_makes_new_ones(directory: Path) -> None:
    backend = engine_in(directory).blocking(ThreadRuntime())
    _bad_files(directory)
    for path in directory.iterdir():
        os.utime(path, (0, 0), follow_symlinks=False)
    before = open_descriptors()
    for name in range(3 * EVERY):
        held = claim(f"ns:{name}")
        take(backend, held)
        release(backend, held)
    run(backend.close())
    assert open_descriptors() <= before


def test_a_number_that_no_clock_says_is_no_number(backend: FileBackend, directory: Path) -> None:
    held = claim()
    raw = take(backend, held)
    release(backend, held)
    path = next(directory.iterdir())
    record = file_layout.encode(file_layout.Record(mode=file_layout.EXCLUSIVE, raw=2**64 - 1))
    path.write_bytes(record + path.read_bytes()[file_layout.RECORD :])
    assert take(backend, claim()) > raw


# -- a full disk


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on only the first page of a file, which is there, can be written."""
    real = os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if offset >= file_layout.WAITERS:
            raise OSError(28, "No space left on device")
        return real(fd, data, offset)

    return lambda: monkeypatch.setattr(os, "pwrite", pwrite)


def test_on_a_full_disk_a_known_lock_can_be_waited_for(
    backend: FileBackend, full: Callable[[], None]
) -> None:
    held, wanted = claim(), claim()
    take(backend, held)
    full()
    assert busy(backend, wanted)
    assert release(backend, held)
    take(backend, wanted)


@pytest.mark.parametrize("make", [reader, lambda: claim(owner="o"), lambda: permit(2)])
def test_on_a_full_disk_a_known_lock_can_be_shared(
    backend: FileBackend, full: Callable[[], None], make: Callable[[], Claim]
) -> None:
    exclusive = claim() if make().mode is not permit(1).mode else permit(1)
    take(backend, exclusive)
    release(backend, exclusive)
    path = Path(backend._recipe.files.folder.directory.path)
    for each in path.iterdir():
        os.truncate(each, file_layout.WAITERS)
    full()
    held, other = make(), make()
    take(backend, held)
    take(backend, other)
    assert release(backend, held)
    assert release(backend, other)


# -- other users


@pytest.mark.root
def test_who_may_not_look_is_not_told_that_it_is_free() -> None:
    with shared_directory(0o770) as directory:
        take(engine_in(directory).blocking(ThreadRuntime()), claim())
        os.chown(next(directory.iterdir()), 1001, 1001)

        def ask() -> bool:
            with locknut.connect(f"file://{directory}", namespace="ns") as locks:
                return locks.lock("a").locked()

        assert "Permission denied" in by_user(1002, ask)

        def list_all() -> int:
            with locknut.connect(f"file://{directory}", namespace="ns") as locks:
                return len(list(locks.list()))

        assert by_user(1002, list_all) == 0


@pytest.mark.root
def test_a_group_that_cannot_share_is_told_how() -> None:
    with shared_directory(0o770) as directory:

        def use() -> bool:
            with locknut.connect(f"file://{directory}").lock("a"):
                return True

        assert by_user(1001, use, group=1001) is True
        assert f"chmod g+s {directory}" in by_user(1002, use, group=1002)
        directory.chmod(0o2770)
        for path in directory.iterdir():
            path.unlink()
        assert by_user(1001, use, group=1001) is True
        assert by_user(1002, use, group=1002) is True


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
            with locknut.connect(f"file://{directory}").lock("a"):
                return True

        assert by_user(1001, use) is True
        path = next(directory.iterdir())
        with path.open("r+b") as file:
            file.seek(file_layout.GRAVE)
            file.write(file_layout.REMOVED)
        by_user(1002, use)  # whoever finds it may be told so, but only once
        assert by_user(1002, use) is True


# -- time namespaces


@pytest.mark.parametrize("ahead", [100_000, -50_000])
def test_a_detached_hold_is_seen_from_another_time_namespace(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    backend, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, first, last = claim(), claim(), claim()
    raw = take(backend, held)
    run(backend.detach(held, 60.0))
    shift, real = ahead * 10**9, (time.clock_gettime_ns, time.monotonic_ns)
    (tmp_path / "shifts").write_text(f"monotonic {ahead} 0\nboottime {ahead} 0\n")
    assert busy(backend, first)
    try:
        monkeypatch.setattr(this_boot, "_SHIFTS", str(tmp_path / "shifts"))
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: real[0](clock) + shift)
        monkeypatch.setattr(time, "monotonic_ns", lambda: real[1]() + shift)
        this_boot.shift.cache_clear()
        assert busy(other, last)
        tickets = [
            one._recipe.states[wanted.id].ticket
            for one, wanted in ((backend, first), (other, last))
        ]
        assert tickets == sorted(tickets, key=lambda ticket: ticket or 0)
        answer = run(other.attach(held, claim()))
        assert isinstance(answer, Granted)
        assert answer.raw == raw
    finally:
        monkeypatch.undo()
        this_boot.shift.cache_clear()


# -- ttl


def test_a_ttl_that_no_grant_could_keep_is_refused(directory: Path) -> None:
    """Validity is the ttl less 1 % and 2 ms."""
    with locknut.connect(f"file://{directory}") as locks:
        with pytest.raises(ValueError, match="ttl"):
            locks.lock("a", ttl=0.002)
        lease = locks.lock("a", ttl=0.05).acquire(timeout=30)
        assert lease is not None


# -- old files


def _make_old(directory: Path, how_many: int) -> None:
    backend = engine_in(directory).blocking(ThreadRuntime())
    for name in range(how_many):
        held = claim(f"ns:old-{name}")
        take(backend, held)
        release(backend, held)
    for path in directory.iterdir():
        os.utime(path, (0, 0))


def _old_ones(directory: Path) -> int:
    return len(list(directory.glob("*old-*")))


def _make_new(backend: FileBackend, directory: Path, name: int) -> None:
    """A lock that is used once; its file goes at once, so that looks always find old ones."""
    held = claim(f"ns:new-{name}")
    take(backend, held)
    release(backend, held)
    for path in directory.glob("*new-*"):
        path.unlink()


def test_old_files_are_removed_in_passing(directory: Path) -> None:
    _make_old(directory, 300)
    backend = engine_in(directory).blocking(ThreadRuntime())
    held = claim("ns:recent")
    take(backend, held)
    release(backend, held)
    for name in range(6 * EVERY):  # each look is at 64 files, of which at most 2 are not old
        _make_new(backend, directory, name)
    assert _old_ones(directory) == 0
    assert len(list(directory.glob("*recent*"))) == 1


def test_processes_that_make_one_file_each_remove_old_files_too(directory: Path) -> None:
    _make_old(directory, 60)  # one look finds them all
    for name in range(40 * EVERY):  # one process in 32 looks: all miss once in 10^17 runs
        backend = engine_in(directory).blocking(ThreadRuntime())  # as in a process of its own
        _make_new(backend, directory, name)
        run(backend.close())
        if not _old_ones(directory):
            break
    assert _old_ones(directory) == 0
