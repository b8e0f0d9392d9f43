"""The guard for files when processes are killed, forked and many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from locknut.errors import AcquireTimeout, BackendError
from locknut.guards import FileGuard

WORKER = Path(__file__).with_name("worker.py")
SOURCES = Path(__file__).parents[2] / "src"
PROCESSES = 6
ROUNDS = 200

pytestmark = pytest.mark.faults


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "data.json"
    FileGuard(file).enter(7).write_text("old")
    return file


@contextmanager
def worker(what: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(WORKER), what, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def run(what: str, *arguments: object) -> int:
    with worker(what, *arguments) as process:
        return process.wait(timeout=60)


def test_killed_at_every_point_the_file_is_old_or_new_and_nobody_is_locked_out(path: Path) -> None:
    for call in range(1, 100):
        fence = 7 + call
        FileGuard(path).enter(fence - 1).write_text("old")
        code = run("crash", path, fence, call)
        newest, content = FileGuard(path, patience=5).newest, path.read_text()
        assert newest in {fence - 1, fence}
        assert content in {"old", "new"}
        assert content == "old" or newest == fence, "written before the fence was on the disk"
        if code == 0:
            break
        assert code == -signal.SIGKILL
    else:
        pytest.fail("the writer never came to its end")
    assert call > 10, "the crash points were not reached"
    assert content == "new"
    FileGuard(path).enter(fence + 1)
    assert sorted(os.listdir(path.parent)) == ["data.json", "data.json.fence"]


def test_a_holder_killed_inside_a_step_frees_it(path: Path) -> None:
    with worker("hold", path, 8) as holder:
        assert says(holder) == "inside"
        with pytest.raises(AcquireTimeout, match="middle of a step"):
            FileGuard(path, patience=0.05).enter(9)
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=60)
        assert FileGuard(path, patience=0).enter(9).read_text() == "old"


def test_a_child_forked_inside_a_step_does_not_keep_it(path: Path) -> None:
    with worker("fork", path, 8) as parent:
        assert {says(parent), says(parent)} == {"child", "parent"}
        with pytest.raises(AcquireTimeout):
            FileGuard(path, patience=0).enter(9)
        parent.kill()
        parent.wait(timeout=60)
        # The child is alive (it waits for a line), and the step is free all the same (S17).
        FileGuard(path, patience=0).enter(9)


def test_a_child_that_leaves_the_step_it_inherited_does_not_free_it(path: Path) -> None:
    with worker("fork", path, 8) as parent:
        assert {says(parent), says(parent)} == {"child", "parent"}
        tell(parent)
        assert says(parent) == "left"
        with pytest.raises(AcquireTimeout):
            FileGuard(path, patience=0).enter(9)


def test_a_child_forked_inside_a_step_is_judged_by_its_fence(path: Path) -> None:
    with worker("fork_and_write", path, 8) as parent:
        assert says(parent) == "left"
        FileGuard(path).enter(9).write_text("new")
        tell(parent)
        assert says(parent) == "refused"
    assert path.read_text() == "new"


def move_away(record: str) -> None:
    os.rename(record, f"{record}.old")


def put_another_in_its_place(record: str) -> None:
    move_away(record)
    Path(record).touch()


@pytest.mark.parametrize("how", [os.unlink, move_away, put_another_in_its_place])
def test_a_record_that_goes_while_a_step_waits_for_it_lets_nobody_in(
    path: Path, how: Callable[[str], None]
) -> None:
    record = f"{path}.fence"
    entered = FileGuard(path, patience=60).enter(8)
    before = path.read_text()
    with worker("hold", path, 8) as holder:
        assert says(holder) == "inside"
        with ThreadPoolExecutor() as pool:
            writing = pool.submit(entered.write_text, "in a step that nobody else sees")
            until_asked_for(record)
            how(record)
            holder.kill()
            with pytest.raises(BackendError, match="was removed meanwhile"):
                writing.result(timeout=60)
    assert path.read_text() == before


def until_asked_for(record: str) -> None:
    """Until another process's record is open in this one too: whoever has it open waits for it."""
    deadline = time.monotonic() + 60
    while not any(_leads_to(number, record) for number in os.listdir("/proc/self/fd")):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _leads_to(number: str, path: str) -> bool:
    with suppress(FileNotFoundError):
        return os.readlink(f"/proc/self/fd/{number}") == path
    return False


def test_many_processes_with_old_fences_lose_no_accepted_write(path: Path) -> None:
    path.write_text("[]")
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(worker("stress", path, ROUNDS, 8 + first, PROCESSES))
            for first in range(PROCESSES)
        ]
        assert {says(process) for process in crowd} == {"ready"}
        for process in crowd:
            tell(process)
        told = [json.loads(says(process)) for process in crowd]
    fences = json.loads(path.read_text())
    assert sum(written for written, _ in told) == len(fences)
    assert fences == sorted(set(fences)), "an older fence wrote after a newer one"
    assert all(refused for _, refused in told), "nobody was ever late: nothing was tested"
