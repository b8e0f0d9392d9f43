"""A directory with many files is not listed more often than their number is worth.

A look for files that nobody needs reads the whole directory. If there were one for every so many
files, making them would cost the square of their number.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut.backends.file.folder import EVERY, FOR_EACH, PART

FILES = 40 * PART * 2
"""With one look for each `EVERY` files there would be 160."""


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many names each listing of a directory found."""
    found: list[int] = []
    plain: Callable[..., list[str]] = os.listdir

    def listdir(*where: Any) -> list[str]:
        names = plain(*where)
        found.append(len(names))
        return names

    monkeypatch.setattr(os, "listdir", listdir)
    return found


@pytest.mark.file
def test_making_files_lists_the_directory_less_and_less_often(
    tmp_path: Path, listed: list[int]
) -> None:
    with locknut.connect(f"file://{tmp_path}/locks") as locks:
        for number in range(FILES):
            with locks.lock(f"job {number}"):
                pass
    assert sum(listed) < (PART + EVERY) * FILES, "what was read grows with the files, not faster"
    assert len(listed) < FILES / EVERY
    assert len(listed) > PART, "it still looks"


@pytest.mark.file
def test_old_files_go_as_fast_as_new_ones_come(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with locknut.connect(f"file://{folder}") as locks:
        for number in range(FILES // 2):
            with locks.lock(f"old {number}"):
                pass
    old = {each.name for each in folder.iterdir()}
    for name in old:
        os.utime(folder / name, (0, 0))
    with locknut.connect(f"file://{folder}") as locks:
        for number in range(FILES):
            with locks.lock(f"new {number}"):
                pass
    left = [each for each in folder.iterdir() if each.name in old and not each.stat().st_mtime]
    assert len(left) < len(old) / FOR_EACH


@contextmanager
def descriptors_left(number: int) -> Iterator[None]:
    """This process may open so many more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [os.dup(0) for _ in range(number + 1)]
    for each in free:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.file
def test_files_kept_open_to_be_quick_make_room_for_those_that_are_needed(tmp_path: Path) -> None:
    with locknut.connect(f"file://{tmp_path}/locks") as locks, descriptors_left(30):
        for number in range(100):
            with locks.lock(f"job {number}"):
                pass
        held = [locks.lock(f"held {number}").acquire() for number in range(20)]
        for lease in held:
            assert lease is not None
            lease.release()
        other = locknut.connect(f"file://{tmp_path}/other")
        with other, other.lock("x"):  # those of one directory make room for another's
            pass


@pytest.mark.file
def test_without_any_left_it_is_an_error_that_says_so(tmp_path: Path) -> None:
    with locknut.connect(f"file://{tmp_path}/locks") as locks, locks.lock("x"):
        with (
            descriptors_left(0),
            pytest.raises(locknut.BackendError, match="Too many open files"),
            locks.lock("y"),
        ):
            pass
        with locks.lock("y"):
            pass
