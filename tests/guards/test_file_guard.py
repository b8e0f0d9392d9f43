"""The guard for files: who is let in, who is refused, and what is left on the disk."""

from __future__ import annotations

import os
import pickle
import resource
import stat
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from locknut.core.values import Mode
from locknut.errors import BackendError, ConfigurationError, NotHeld, StaleFence, Unsupported
from locknut.guards import FileGuard
from locknut.guards.record import LINE


class Lease(NamedTuple):
    """What a guard sees of a lease."""

    fence: int | None
    mode: Mode = Mode.EXCLUSIVE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "data.json"
    file.write_text("100")
    return file


def entered(path: Path, fence: int) -> FileGuard:
    return FileGuard(path, patience=5).enter(fence)


class ChecksOnWriteOnly:
    """The naive guard: the fence is looked at, and recorded, only when something is written."""

    def __init__(self, path: Path, fence: int) -> None:
        self.path, self.fence = path, fence

    def read_text(self) -> str:
        return self.path.read_text()

    def write_text(self, text: str) -> None:
        FileGuard(self.path).enter(self.fence).write_text(text)


def new_reads_old_writes_new_writes(
    old: FileGuard | ChecksOnWriteOnly, new: FileGuard | ChecksOnWriteOnly
) -> bool:
    """S16. Whether the old holder's accepted deposit of 50 got lost under the new one's of 10."""
    balance = int(new.read_text())
    try:
        old.write_text("150")
    except StaleFence:
        return False
    new.write_text(str(balance + 10))
    return int(new.read_text()) != 160


def test_a_check_on_write_alone_loses_an_update(path: Path) -> None:
    assert new_reads_old_writes_new_writes(ChecksOnWriteOnly(path, 7), ChecksOnWriteOnly(path, 8))


def test_entering_before_the_first_read_does_not(path: Path) -> None:
    old = entered(path, 7)
    assert not new_reads_old_writes_new_writes(old, entered(path, 8))


def test_what_a_holder_reads_is_what_the_one_before_wrote(path: Path) -> None:
    entered(path, 7).write_text("110")
    assert entered(path, 8).read_text() == "110"
    assert FileGuard(path).newest == 8


def test_an_old_fence_may_not_enter_read_write_or_step(path: Path) -> None:
    old = entered(path, 7)
    entered(path, 8)
    for refused in (lambda: old.enter(7), old.read_bytes, lambda: old.write_text("x")):
        with pytest.raises(StaleFence):
            refused()
    with pytest.raises(StaleFence), old.step():
        pytest.fail("the body of a refused step ran")
    assert path.read_text() == "100"


def test_the_refusal_names_both_fences_and_what_to_do(path: Path) -> None:
    entered(path, 8)
    with pytest.raises(StaleFence, match=r"fence 8, and yours is 7: .* take the lock again"):
        FileGuard(path).enter(7)


def test_the_same_fence_enters_as_often_as_it_likes(path: Path) -> None:
    first, second = entered(path, 7), entered(path, 7)
    first.write_text("1")
    second.write_text("2")
    assert first.read_text() == "2"


def test_nothing_works_before_enter(path: Path) -> None:
    guard = FileGuard(path)
    for early in (
        guard.read_bytes,
        lambda: guard.write_text("x"),
        lambda: guard.step().__enter__(),
    ):
        with pytest.raises(NotHeld, match="enter"):
            early()
    assert guard.newest is None


def test_a_lease_is_as_good_as_its_fence(path: Path) -> None:
    guard = FileGuard(path).enter(Lease(fence=7))
    assert (guard.fence, guard.newest) == (7, 7)


@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.PERMIT])
def test_a_hold_that_others_share_is_refused(path: Path, mode: Mode) -> None:
    with pytest.raises(ConfigurationError, match="exclusive"):
        FileGuard(path).enter(Lease(7, mode))


@pytest.mark.parametrize("nonsense", [0, -1, 2**63, True, "7", None, 7.0])
def test_what_is_no_fence_is_refused_at_the_door(path: Path, nonsense: object) -> None:
    with pytest.raises(ConfigurationError, match="fence"):
        FileGuard(path).enter(nonsense)  # type: ignore[arg-type]


def test_an_engine_without_fences_is_named(path: Path) -> None:
    with pytest.raises(Unsupported, match="fencing"):
        FileGuard(path).enter(Lease(None))


def test_a_step_enters_and_lets_read_and_write_inside(path: Path) -> None:
    guard = FileGuard(path)
    with guard.step(7) as inside:
        inside.write_text(str(int(inside.read_text()) + 1))
    assert path.read_text() == "101"
    assert guard.newest == 7


def test_steps_nest_for_one_hold_and_for_no_other(path: Path) -> None:
    guard = FileGuard(path, patience=0)
    with guard.step(7):
        with guard.step(7) as inner:
            inner.write_text("1")
        with pytest.raises(ConfigurationError, match="not over"), guard.step(8):
            pytest.fail("a newer hold came in, in the middle of a step")
        assert (guard.read_text(), guard.newest) == ("1", 7)
    assert entered(path, 8).newest == 8


def test_threads_that_share_a_guard_take_turns(path: Path) -> None:
    guard = entered(path, 7)

    def add() -> None:
        for _ in range(50):
            with guard.step():
                guard.write_text(str(int(guard.read_text()) + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "300"


def test_a_step_that_raised_leaves_the_guard_usable(path: Path) -> None:
    guard = FileGuard(path, patience=5)
    with pytest.raises(ZeroDivisionError), guard.step(7):
        raise ZeroDivisionError
    assert entered(path, 8).read_text() == "100"


def test_the_file_need_not_exist_yet(tmp_path: Path) -> None:
    guard = entered(tmp_path / "new.json", 7)
    with pytest.raises(FileNotFoundError):
        guard.read_text()
    guard.write_text("first")
    assert guard.read_text() == "first"


def test_two_names_of_one_file_share_one_record(path: Path) -> None:
    link = path.with_name("link.json")
    link.symlink_to(path)
    old = entered(link, 7)
    entered(path, 8)
    with pytest.raises(StaleFence):
        old.read_text()
    assert not link.with_name("link.json.fence").exists()


def test_writing_keeps_the_mode_of_the_file(path: Path) -> None:
    path.chmod(0o640)
    entered(path, 7).write_text("1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.root
def test_writing_as_root_keeps_the_owner_of_the_file(path: Path) -> None:
    os.chown(path, 1001, 1002)
    path.chmod(0o640)
    entered(path, 7).write_text("1")
    about = path.stat()
    assert (about.st_uid, about.st_gid) == (1001, 1002)
    assert stat.S_IMODE(about.st_mode) == 0o640


@pytest.mark.root
def test_a_record_that_root_makes_belongs_to_the_owner_of_the_folder(path: Path) -> None:
    os.chown(path.parent, 1001, 1002)
    entered(path, 7)
    about = path.with_name("data.json.fence").stat()
    assert (about.st_uid, about.st_gid) == (1001, 1002)
    entered(path, 8)


@pytest.mark.parametrize("how", ["removed", "emptied", "restored"])
def test_who_had_entered_a_record_that_was_lost_starts_over(path: Path, how: str) -> None:
    record = path.with_name("data.json.fence")
    entered(path, 7)
    backup = record.read_bytes()
    guard = entered(path, 8)
    if how == "removed":
        record.unlink()
    else:
        record.write_bytes(backup if how == "restored" else b"")
    for act in (guard.read_text, lambda: guard.write_text("1"), lambda: guard.step().__enter__()):
        with pytest.raises(StaleFence, match="its memory was lost"):
            act()
    assert path.read_text() == "100"
    assert guard.enter(8).read_text() == "100"


def test_a_write_that_fails_leaves_the_old_content_and_no_litter(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = entered(path, 7)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        guard.write_text("half")
    assert path.read_text() == "100"
    assert sorted(os.listdir(path.parent)) == ["data.json", "data.json.fence"]


def test_a_write_that_fails_half_way_leaves_no_draft(path: Path) -> None:
    """On a full disk every try left one more, as large as what had fitted."""
    guard, before = entered(path, 7), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            guard.write_bytes(b"x" * (2 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert guard.read_text() == "100"
    assert sorted(os.listdir(path.parent)) == ["data.json", "data.json.fence"]


def test_the_next_to_enter_clears_the_drafts_of_the_dead_but_not_its_own(path: Path) -> None:
    dead = path.with_name(f".data.json.{7:020d}.abc.draft")
    alive = path.with_name(f".data.json.{8:020d}.abc.draft")
    stranger = path.with_name(".data.json.mine.draft")
    for file in (dead, alive, stranger):
        file.write_text("x")
    entered(path, 8)
    assert [file.exists() for file in (dead, alive, stranger)] == [False, True, True]


@pytest.mark.parametrize("exists", [True, False])
def test_a_planted_link_in_place_of_the_record_is_not_followed(path: Path, exists: bool) -> None:
    victim = path.with_name("victim")
    if exists:
        victim.touch()
    path.with_name("data.json.fence").symlink_to(victim)
    with pytest.raises(BackendError, match=r"data\.json\.fence"):
        entered(path, 7)
    assert victim.exists() == exists
    assert not exists or not victim.read_bytes()


def test_a_second_name_for_the_record_is_refused(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_text("precious")
    os.link(victim, path.with_name("data.json.fence"))
    with pytest.raises(ConfigurationError, match="plain file"):
        entered(path, 7)
    assert victim.read_text() == "precious"


def test_a_pipe_in_place_of_the_record_does_not_hang(path: Path) -> None:
    os.mkfifo(path.with_name("data.json.fence"))
    with pytest.raises(ConfigurationError, match="plain file"):
        entered(path, 7)


@pytest.mark.root
def test_a_record_of_a_stranger_is_refused(path: Path) -> None:
    entered(path, 7)
    os.chown(path.with_name("data.json.fence"), 12345, -1)
    with pytest.raises(ConfigurationError, match="12345"):
        entered(path, 8)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="path="):
        FileGuard(tmp_path)


@pytest.mark.parametrize("torn", range(LINE + 1))
@pytest.mark.parametrize("fences", [[7], [7, 8], [7, 8, 9]])
def test_a_torn_record_never_forgets_a_fence(path: Path, fences: list[int], torn: int) -> None:
    record = path.with_name("data.json.fence")
    for fence in fences:
        entered(path, fence)
    before = record.read_bytes()
    entered(path, 10)
    after = record.read_bytes().ljust(2 * LINE, b"\0")
    line = 0 if before[:LINE] != after[:LINE] else LINE
    mixed = bytearray(before.ljust(2 * LINE, b"\0"))
    mixed[line : line + torn] = after[line : line + torn]
    record.write_bytes(mixed)
    assert FileGuard(path).newest == (10 if bytes(mixed) == after else fences[-1])


def test_a_record_that_tells_nothing_lets_nobody_in(path: Path) -> None:
    entered(path, 7)
    path.with_name("data.json.fence").write_bytes(b"x" * 2 * LINE)
    with pytest.raises(BackendError, match="damaged"):
        entered(path, 8)


def test_a_record_emptied_by_a_crash_before_its_first_number_is_none(path: Path) -> None:
    path.with_name("data.json.fence").write_bytes(b"\0" * LINE)
    assert FileGuard(path).newest is None


def test_stale_fence_pickles(path: Path) -> None:
    entered(path, 8)
    with pytest.raises(StaleFence) as caught:
        entered(path, 7)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
