"""Many lock files: what a large directory costs, and a process that may open no more.

A look for files that nobody needs reads the whole directory. If there were one for every so many
files, making them would cost the square of their number.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import locknut
import locknut.aio
from locknut.backends.file import ofd_locks
from locknut.backends.file.folder import EVERY, FOR_EACH, PART, Folder
from tests.descriptors import descriptors_left
from tests.servers.processes import until

SOURCE = Path(__file__).parents[3] / "src"
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


ADVICE = r"Too many open files.*each lock .* takes an open file.*ulimit -n"


@pytest.mark.file
def test_without_any_left_it_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    """A directory that could not be opened for that had to be "another" one."""
    with locknut.connect(f"file://{tmp_path}/locks") as locks, locks.lock("x"):
        with descriptors_left(0):
            with pytest.raises(locknut.BackendError, match=ADVICE), locks.lock("y"):
                pass
            with pytest.raises(locknut.BackendError, match=ADVICE):
                locknut.connect(f"file://{tmp_path}/other")
        with locks.lock("y"):
            pass


@pytest.mark.file
def test_on_a_loop_as_well(tmp_path: Path) -> None:
    async def story() -> None:
        async with locknut.aio.connect(f"file://{tmp_path}/locks") as locks, locks.lock("x"):
            with descriptors_left(0), pytest.raises(locknut.BackendError, match=ADVICE):
                async with locks.lock("y"):
                    pass
            async with locks.lock("y"):
                pass

    asyncio.run(story())


@pytest.mark.file
def test_connecting_fails_in_the_same_words_wherever_they_run_out(tmp_path: Path) -> None:
    """Where there was one left for the directory, the library that is asked about it failed."""
    program = f"""
import importlib, os, resource, socket, sys
import locknut
from locknut.backends.file import engine
free = [os.dup(0) for _ in range(int(sys.argv[1]) + 1)]
for each in free:
    os.close(each)
resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], free[-1]))
try:
    locknut.connect("file://{tmp_path}/locks")
except locknut.BackendError as error:
    assert "ulimit -n" in str(error) or "ctypes" in str(error) or "libffi" in str(error), error
    print("refused")
else:
    print("connected")
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", program, str(left)],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for left in range(6)
    ]
    assert said == sorted(said, reverse=True)
    assert {*said} == {"refused", "connected"}


@pytest.mark.file
def test_what_is_held_is_looked_after_and_can_be_released(tmp_path: Path) -> None:
    with locknut.connect(f"file://{tmp_path}/locks") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        beat = locks._client.schedule
        with descriptors_left(0):
            before = beat.beat_at
            until(lambda: beat.beat_at > before, "the keeper looks")
            assert lease.held
            lease.release()
        with locks.lock("x", timeout=0):
            pass


@pytest.mark.file
def test_a_hold_that_cannot_be_detached_for_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modules that write the text could not be read when the hold had ended already."""
    real: Callable[..., Any] = builtins.__import__

    def read(name: str, *words: Any) -> Any:
        if name == "json":
            raise OSError(24, "Too many open files")
        return real(name, *words)

    with locknut.connect(f"file://{tmp_path}/locks") as locks, locks.lock("x") as lease:
        with monkeypatch.context() as patched:
            patched.setattr(builtins, "__import__", read)
            with pytest.raises(OSError, match="Too many"):
                lease.detach(10)
        lease.check()


@pytest.mark.file
@pytest.mark.parametrize("kind", ["ofd", "flock"])
def test_cleaning_up_in_passing_costs_no_descriptor(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was refused there came out of the acquire, and its own lock file stayed open."""
    if kind == "flock":
        monkeypatch.setattr(ofd_locks, "works", lambda _: False)
    with locknut.connect(f"file://{tmp_path}/locks") as locks:
        with locks.lock("first"):
            pass

        def refuse(*_: object) -> list[str]:
            raise locknut.ConfigurationError("everybody may write to it by now")

        monkeypatch.setattr(Folder, "names", refuse)
        for number in range(2 * EVERY):
            with locks.lock(f"job {number}"):
                pass
