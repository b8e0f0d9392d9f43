"""The directory and its files: whom to trust, what is in a name, and safe removal."""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from locknut.backends.file import directory as directories
from locknut.backends.file import file_layout, ofd_locks
from locknut.backends.file.backend import FileBackend
from locknut.core.values import Capability, Mode, Renewal
from locknut.errors import BackendError, ConfigurationError
from locknut.runtimes import file_systems
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    Child,
    acquire,
    busy,
    claim,
    engine_in,
    permit,
    program,
    release,
    run,
    take,
)

Start = Callable[[], Child]


# -- the directory


def test_the_default_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "locknut").mkdir(mode=0o755)
    engine = engine_in("")
    assert engine.id == f"file:{(tmp_path / 'locknut').resolve()}"
    assert (tmp_path / "locknut").stat().st_mode & 0o777 == 0o700
    take(engine.blocking(ThreadRuntime()), claim())
    (made,) = (tmp_path / "locknut").iterdir()
    assert made.stat().st_mode & 0o777 == 0o600


def test_a_default_directory_that_is_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locknut").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="symbolic link"):
        engine_in("")


def test_a_directory_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(ConfigurationError, match="everybody"):
        engine_in(tmp_path)


def test_a_shared_directory_decides_who_shares_its_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    before = os.umask(0o077)
    try:
        take(engine_in(tmp_path).blocking(ThreadRuntime()), claim())
    finally:
        os.umask(before)
    (made,) = tmp_path.iterdir()
    assert made.stat().st_mode & 0o777 == 0o660


def test_a_link_to_a_directory_leads_to_the_same_engine(tmp_path: Path, directory: Path) -> None:
    engine = engine_in(directory)
    (tmp_path / "link").symlink_to(directory)
    other = engine_in(tmp_path / "link")
    assert other.id == engine.id
    take(engine.blocking(ThreadRuntime()), claim())
    assert busy(other.blocking(ThreadRuntime()), claim())


def test_a_network_file_system_is_refused_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "network_kind", lambda _: "NFS")
    with pytest.raises(ConfigurationError, match=r"NFS.*network=allow"):
        engine_in(tmp_path)
    allowed = engine_in(tmp_path, network="allow").blocking(ThreadRuntime())
    assert not allowed.capabilities & {Capability.FAIR, Capability.WAKE_UP}
    take(allowed, claim())


def test_the_kind_of_file_system_is_asked_of_the_kernel() -> None:
    fd = os.open("/proc", os.O_RDONLY)
    try:
        assert file_systems._kind(fd) == 0x9FA0
    finally:
        os.close(fd)


def test_a_path_that_cannot_be_a_directory_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match=r"file:///path"):
        engine_in(tmp_path / "file")


@pytest.mark.parametrize("option", [{"networks": "allow"}, {"network": "yes"}])
def test_unknown_options_are_named(tmp_path: Path, option: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="network"):
        engine_in(tmp_path, **option)


# -- names


def test_different_names_have_different_files() -> None:
    keys = [
        "ns:a", "ns:A", "ns=a", "ns:a.lock", "ns:..", ".", "..", "ns:a/b", "ns:a\\b", "ns:a b",
        "ns:a~b", "ns:" + "x" * 200, "ns:" + "x" * 201, "ns:ä",
        unicodedata.normalize("NFD", "ns:ä"),
        "ns:İ", "ns:i̇", "ns:\udcff", "ns:\0", "con", "ns:%", "-", "ns:" + "日本" * 100,
    ]  # fmt: skip
    names = [
        directories.file_name(key, mode) for key in keys for mode in (Mode.SHARED, Mode.PERMIT)
    ]
    folded = {unicodedata.normalize("NFC", name).casefold() for name in names}
    assert len(folded) == 2 * len(keys)
    for name in names:
        assert len(name.encode()) <= 143
        assert name.isascii()
        assert "/" not in name
        assert not name.startswith(".")
    assert directories.file_name("jobs:nightly", Mode.EXCLUSIVE) == "jobs=nightly.lock"


def test_any_name_is_listed_as_it_was_given(backend: FileBackend) -> None:
    keys = ["ns:a/b", "ns:Ä", "ns:" + "日本" * 300, "ns:plain"]
    for key in keys:
        take(backend, claim(key))
    assert sorted(info.name for info in run(backend.inspect())) == sorted(keys)


def test_a_name_too_long_for_a_file_is_refused(backend: FileBackend) -> None:
    with pytest.raises(ConfigurationError, match="too long"):
        run(backend.attempt(claim("ns:" + "x" * 5000), 0.0))


# -- files that are not ours


def _file_of(key: str, directory: Path) -> Path:
    return directory / directories.file_name(key, Mode.EXCLUSIVE)


def test_a_foreign_file_is_never_written_over(backend: FileBackend, directory: Path) -> None:
    path = _file_of("ns:a", directory)
    path.write_text("my diary")
    with pytest.raises(BackendError, match="does not begin like a lock file"):
        take(backend, claim())
    assert path.read_text() == "my diary"


def test_links_are_not_followed(backend: FileBackend, directory: Path, tmp_path: Path) -> None:
    path = _file_of("ns:a", directory)
    (tmp_path / "victim").write_text("")
    path.symlink_to(tmp_path / "victim")
    with pytest.raises(BackendError):
        take(backend, claim())
    path.unlink()
    os.link(tmp_path / "victim", path)
    with pytest.raises(BackendError, match="another name"):
        take(backend, claim())
    assert (tmp_path / "victim").read_text() == ""


def test_an_error_of_the_system_is_told_as_one_of_ours(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    held, wanted = claim(), claim()
    take(backend, held)
    release(backend, held)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(BackendError, match="No space left") as caught:
        take(backend, wanted)
    assert caught.value.key == "ns:a"
    monkeypatch.undo()
    release(backend, wanted)
    take(backend, claim())


# -- removal


def test_unused_files_are_removed_and_used_ones_stay(directory: Path) -> None:
    engine = engine_in(directory)
    backend, other = (
        engine.blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, waiting, detached, free = claim("ns:1"), claim("ns:1"), claim("ns:2"), claim("ns:3")
    semaphore, slot = permit(2, "ns:4"), permit(2, "ns:5")
    for one in (held, detached, free, semaphore, slot):
        take(backend, one)
    assert busy(backend, waiting)
    run(backend.detach(detached, 60.0))
    for one in (free, semaphore):
        release(backend, one)
    assert engine.clean(unused_for=3600.0) == 0
    assert engine.clean(unused_for=0.0) == 2
    assert len(list(directory.iterdir())) == 3
    assert run(backend.renew([held, slot])) == [Renewal.HELD, Renewal.HELD]
    assert busy(other, claim("ns:2"))
    take(backend, claim("ns:3"))


def test_a_file_whose_number_is_ahead_of_the_clock_stays(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_in(directory)
    held = claim()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10**15)
    raw = take(engine.blocking(ThreadRuntime()), held)
    monkeypatch.undo()
    release(engine.blocking(ThreadRuntime()), held)
    assert engine.clean(unused_for=0.0) == 0
    assert take(engine.blocking(ThreadRuntime()), claim()) == raw + 1


def test_files_are_removed_in_passing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = engine_in(directory).blocking(ThreadRuntime())
    for name in range(40):
        held = claim(f"ns:old-{name}")
        take(backend, held)
        release(backend, held)
    for path in directory.iterdir():
        os.utime(path, (0, 0))
    for name in range(200):
        take(backend, claim(f"ns:new-{name}"))
    assert len(list(directory.iterdir())) < 240


def test_a_try_does_not_take_a_cleaner_for_a_holder(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner has everything locked; it goes away while we look."""
    held, wanted = claim(), claim()
    take(backend, held)
    release(backend, held)
    cleaner = backend._recipe.files.open_existing("ns=a.lock")
    assert cleaner is not None
    assert ofd_locks.take(cleaner.fd, ofd_locks.WRITE, 0, ofd_locks.END)
    monkeypatch.setattr(os, "sched_yield", lambda: ofd_locks.drop_all(cleaner.fd))
    take(backend, wanted)
    os.close(cleaner.fd)


@pytest.mark.parametrize("removed_by", ["rm", "clean"])
def test_a_holder_or_waiter_of_a_removed_file_does_not_count(
    directory: Path, removed_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classic: B has the file open when it is unlinked, C makes a new one."""
    engine, other = engine_in(directory), engine_in(directory)
    backend, held, wanted = engine.blocking(ThreadRuntime()), claim(), claim()
    take(backend, held)
    release(backend, held)
    if removed_by == "rm":
        next(directory.iterdir()).unlink()
        real = time.time_ns  # a little later: the link count is not looked at every time
        monkeypatch.setattr(time, "time_ns", lambda: real() + 10**9)
    else:
        assert other.clean(unused_for=0.0) == 1
    take(other.blocking(ThreadRuntime()), claim())
    assert busy(backend, wanted)


def test_a_holder_learns_that_its_file_was_removed(backend: FileBackend, directory: Path) -> None:
    held, wanted = claim(), claim()
    raw = take(backend, held)
    next(directory.iterdir()).unlink()
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert run(acquire(backend, wanted)) != raw


def test_a_removed_directory_is_made_again(backend: FileBackend, directory: Path) -> None:
    held = claim()
    take(backend, held)
    release(backend, held)
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    take(backend, claim("ns:other"))


def test_constant_removal_lets_nobody_in_twice(directory: Path, tmp_path: Path) -> None:
    racers = [program("remover", directory, tmp_path / "seen") for _ in range(5)]
    told = [racer.communicate(timeout=60)[0].split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 5
    grants, cleaned = (sum(int(one[at]) for one in told) for at in (0, 1))
    assert grants > 100
    assert cleaned > 10


def test_the_probe_says_what_the_kernel_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ofd_locks.works(str(tmp_path))
    monkeypatch.setattr(ofd_locks, "take", lambda *_: True)
    assert not ofd_locks.works(str(tmp_path))


def test_a_record_survives_the_way_through_bytes() -> None:
    record = file_layout.Record(
        file_layout.OWNED, 1, 2, 3, 4, 5, 6, 7, b"8" * 8, b"9" * 16, b"a" * 16,
        file_layout.words("h", "w", "l", "o"),
    )  # fmt: skip
    data = file_layout.encode(record)
    assert len(data) == file_layout.RECORD
    assert file_layout.decode(data) == record
    assert record.texts() == ("h", "w", "l", "o")
    before, behind = file_layout.parts(record)
    assert file_layout.assemble(before, 5, 6, behind) == data
    for at in range(len(data)):
        assert file_layout.decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
