"""Where two libraries cannot share a lock, one release takes both: theirs first, then ours.

Three releases follow each other: `old` has their lock, `both` has both, `new` has ours. Neighbours
exclude each other; `old` and `new` do not, so `both` has to be everywhere before `new` begins.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import filelock
import portalocker
import pytest

import locknut
from tests.cli.harness import LOCKNUT, Shell

Enter = Callable[[], AbstractContextManager[object]]
BUSY = (filelock.Timeout, portalocker.AlreadyLocked, locknut.AcquireTimeout)


@contextmanager
def by_both(theirs: Enter, ours: Enter) -> Iterator[None]:
    with theirs(), ours():
        yield


@pytest.fixture(params=["filelock", "portalocker"])
def releases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Enter]]:
    path = tmp_path / "report.lock"
    with ExitStack() as stack:

        def theirs() -> AbstractContextManager[object]:
            if request.param == "filelock":
                return filelock.FileLock(path, timeout=0)
            return portalocker.Lock(path, timeout=0, fail_when_locked=True)

        def ours() -> AbstractContextManager[object]:
            locks = stack.enter_context(locknut.connect(f"file://{tmp_path}/locks"))
            return locks.lock("report", timeout=0)

        yield {"old": theirs, "both": lambda: by_both(theirs, ours), "new": ours}


def excludes(holder: Enter, other: Enter) -> bool:
    with holder():
        try:
            with other():
                return False
        except BUSY:
            return True


NEIGHBOURS = [("old", "old"), ("old", "both"), ("both", "both"), ("both", "new"), ("new", "new")]


@pytest.mark.parametrize(("one", "other"), NEIGHBOURS)
def test_neighbours_exclude_each_other(releases: dict[str, Enter], one: str, other: str) -> None:
    assert excludes(releases[one], releases[other])
    assert excludes(releases[other], releases[one])
    with releases[one]():
        pass


def test_the_first_and_the_last_do_not(releases: dict[str, Enter]) -> None:
    assert not excludes(releases["old"], releases["new"])
    assert not excludes(releases["new"], releases["old"])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(f"file://{tmp_path}/locks")
    yield made
    made.close()


@pytest.mark.parametrize(("one", "other"), [*NEIGHBOURS, ("old", "new")])
def test_flock(shell: Shell, tmp_path: Path, one: str, other: str) -> None:
    """The same from the shell, where the release in the middle has both wrappers."""
    flock = ["flock", "-n", "-E", "75", str(tmp_path / "x.lock")]
    run = [*LOCKNUT, "run", "-n", "-q", "x", "--"]
    wrappers = {"old": flock, "both": [*flock, *run], "new": run}
    with subprocess.Popen(
        [*wrappers[one], "sh", "-c", "echo begun; read line"],
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "begun\n"
        code = subprocess.run(
            [*wrappers[other], "true"], env=shell.environment, check=False
        ).returncode
        holder.communicate("go\n")
    assert code == (0 if (one, other) == ("old", "new") else 75)
    assert holder.returncode == 0
