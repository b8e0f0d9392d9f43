"""The recipe of the page of `file:` for users who share their locks, run as it stands there."""

from __future__ import annotations

import grp
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import locknut
from tests.backends.file.users import GROUP, by_user, shared_directory
from tests.contracts.sources import ROOT

pytestmark = pytest.mark.file
ALICE, BOB = 1001, 1002
GROUPS = {ALICE: 1001, BOB: 1002}
"""The first group of each: not the one that they share."""


def recipe(group: str, directory: Path) -> list[str]:
    """The line of the page that makes the directory, for another group and another place."""
    page = (ROOT / "docs" / "engines" / "file.md").read_text()
    (line,) = re.findall(r"^install -d .*$", page, re.MULTILINE)
    words = shlex.split(line.replace("/var/lib/jobs", str(directory)))
    words[words.index("-g") + 1] = group
    return words


@contextmanager
def made() -> Iterator[Path]:
    """A directory of the recipe, where other users can get at it."""
    with shared_directory(0o755) as parent:
        directory = parent / "jobs"
        subprocess.run(recipe(str(GROUP), directory), check=True)
        yield directory


def test_the_recipe_makes_a_directory_that_is_taken(tmp_path: Path) -> None:
    """As far as one user can see: with a group of its own."""
    directory = tmp_path / "jobs"
    subprocess.run(recipe(grp.getgrgid(os.getgid()).gr_name, directory), check=True)
    assert directory.stat().st_mode & 0o7777 == 0o2770
    with locknut.connect(f"file://{directory}") as locks, locks.lock("x"):
        (file,) = [each for each in directory.iterdir() if each.is_file()]
        assert file.stat().st_gid == directory.stat().st_gid
        assert file.stat().st_mode & 0o777 == 0o660


def try_it(directory: Path) -> bool:
    with locknut.connect(f"file://{directory}") as locks:
        lease = locks.lock("x").acquire(blocking=False)
        if lease is not None:
            lease.release()
        return lease is not None


def leave_held(directory: Path) -> bool:
    """A hold that outlives the process that made it."""
    with locknut.connect(f"file://{directory}") as locks:
        lease = locks.lock("x").acquire(blocking=False)
        return lease is not None and bool(lease.detach(ttl=600))


def break_it(directory: Path) -> bool:
    with locknut.connect(f"file://{directory}") as locks:
        return locks.force_release("x")


def by(user: int, work: Callable[[Path], bool], directory: Path) -> Any:
    return by_user(user, lambda: work(directory), group=GROUPS[user])


@pytest.mark.root
@pytest.mark.parametrize(("holder", "other"), [(ALICE, BOB), (BOB, ALICE)])
def test_users_of_a_group_exclude_each_other(holder: int, other: int) -> None:
    with made() as directory:
        assert by(holder, try_it, directory) is True
        assert by(other, leave_held, directory) is True
        assert by(holder, try_it, directory) is False
        assert try_it(directory) is False  # root


@pytest.mark.root
def test_members_of_the_group_can_break_each_others_locks() -> None:
    with made() as directory:
        assert by(ALICE, leave_held, directory) is True
        assert by(BOB, break_it, directory) is True
        assert by(BOB, leave_held, directory) is True
        assert by(ALICE, break_it, directory) is True


@pytest.mark.root
def test_users_have_directories_of_their_own() -> None:
    with shared_directory(0o2770) as homes:

        def place(user: int) -> str:
            home = homes / str(user)
            home.mkdir()
            os.environ["HOME"] = str(home)
            os.environ.pop("XDG_STATE_HOME", None)
            with locknut.connect("file:") as locks:
                return locks.place

        for user in (ALICE, BOB):
            told = by_user(user, partial(place, user), group=GROUPS[user])
            assert told == f"file:{homes}/{user}/.local/state/locknut"
