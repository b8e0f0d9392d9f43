"""History in a directory of lock files: bounded, shared by processes, and in nobody's way."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import locknut
from locknut.backends.file import history_file
from locknut.backends.file.directory import open_directory
from locknut.backends.file.folder import Folder
from locknut.backends.file.outcomes import Crowded
from locknut.core import recording
from tests.history.looking import eventually, kinds

pytestmark = pytest.mark.file
STREAM = "t:history:routine"
NAME = "t=history=routine.history"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 0.05)
    monkeypatch.setattr(recording, "RETRY_FIRST", 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(open_directory(str(tmp_path)))


def texts(folder: Folder) -> list[str]:
    return [text for _, text in history_file.read(folder, STREAM, None).texts]


def python(program: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_person_can_read_the_file(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    with (
        locknut.connect(url, namespace="t", history=20, label="me") as locks,
        locks.lock("invoice:42") as lease,
    ):
        pass
    head, granted, _ = (tmp_path / NAME).read_text().splitlines()
    assert head == "locknut history 0000000002"
    facts = json.loads(granted.partition(" ")[2])
    assert (facts["kind"], facts["name"], facts["fence"]) == ("granted", "invoice:42", lease.fence)
    assert facts["label"] == "me"
    assert facts["pid"] == os.getpid()


def test_it_never_grows_beyond_twice_what_is_wanted(folder: Folder, tmp_path: Path) -> None:
    for number in range(100):
        history_file.write(folder, STREAM, [f"entry {number:05} {'x' * 50}"], 10)
        assert (tmp_path / NAME).stat().st_size < 2000
        assert len(texts(folder)) <= 20
    assert texts(folder)[-10:] == [f"entry {number:05} {'x' * 50}" for number in range(90, 100)]


WRITER = """
import sys
from locknut.backends.file import history_file
from locknut.backends.file.directory import open_directory
from locknut.backends.file.folder import Folder
from locknut.backends.file.outcomes import Crowded
folder = Folder(open_directory(sys.argv[1]))
for number in range(200):
    while True:
        try:
            history_file.write(folder, "t:history:routine", [f"{sys.argv[2]} {number}"], 1000)
            break
        except Crowded:
            pass
"""


def test_processes_write_one_file(folder: Folder, tmp_path: Path) -> None:
    crowd = [python(WRITER, tmp_path, name) for name in "abc"]
    assert [each.communicate(timeout=60)[0] for each in crowd] == [""] * 3
    assert [each.returncode for each in crowd] == [0] * 3
    found = texts(folder)
    for name in "abc":
        own = [text for text in found if text.startswith(name)]
        assert own == [f"{name} {number}" for number in range(200)]


STOPPED = """
import os, signal, sys
from locknut.backends.file import history_file
from locknut.backends.file.directory import open_directory
from locknut.backends.file.folder import Folder
append = history_file._append
def stop(*args):
    print("inside", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    append(*args)
history_file._append = stop
history_file.write(Folder(open_directory(sys.argv[1])), "t:history:routine", ["late"], 100)
"""


def test_a_writer_that_stopped_in_the_middle_keeps_nobody_from_a_lock(
    folder: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = python(STOPPED, tmp_path)
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == "inside\n"
    try:
        with pytest.raises(Crowded):
            history_file.write(folder, STREAM, ["x"], 100)
        with (
            caplog.at_level(logging.WARNING, "locknut"),
            locknut.connect(f"file://{tmp_path}", namespace="t", history=200) as locks,
        ):
            for number in range(20):
                with locks.lock(f"{number}"):
                    pass
            eventually(lambda: "history cannot be written" in caplog.text)
            stopped.send_signal(signal.SIGCONT)
            assert stopped.wait(30) == 0
            eventually(lambda: ("released", "19") in kinds(locks.history()))
        assert "late" in texts(folder)
    finally:
        stopped.kill()
        stopped.wait()
        stopped.stdout.close()


def test_a_line_in_pieces_is_passed_over(folder: Folder, tmp_path: Path) -> None:
    history_file.write(folder, STREAM, ["one", "two"], 100)
    with (tmp_path / NAME).open("ab") as file:
        file.write(b"1794944896.5444")  # the writer was killed here
    history_file.write(folder, STREAM, ["three"], 100)
    assert texts(folder) == ["one", "two", "three"]


def test_a_file_of_somebody_else_becomes_ours(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff\x00 no history of ours\n" * 100)
    assert texts(folder) == []
    history_file.write(folder, STREAM, ["one"], 100)
    assert texts(folder) == ["one"]


FULL = """
import resource, sys, threading, time
import locknut
from locknut.core import recording
recording.PAUSE = recording.RETRY_FIRST = 0.01
failures = []
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
with locknut.connect("file://" + sys.argv[1], namespace="t", history=50) as locks:
    told = locks._client.recorder
    told._on_failure = failures.append
    with locks.lock("x"):
        pass
    while not locks.history():
        time.sleep(0.001)
    while not failures:
        with locks.lock("x"):
            pass
        time.sleep(0.001)
    for number in range(100):
        with locks.lock(f"{number}") as lease:
            lease.check()
    print(type(failures[0]).__name__, len(locks.history()) > 0)
"""


def test_a_full_disk_fails_no_lock_and_keeps_what_was_written(tmp_path: Path) -> None:
    done = python(FULL, tmp_path)
    said, _ = done.communicate(timeout=60)
    assert said == "BackendError True\n"
    content = (tmp_path / NAME).read_bytes()
    assert len(content) <= 1024
    assert content.endswith(b"\n"), "what did not fit was taken back"


def test_a_place_that_cannot_be_written_fails_no_lock(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / NAME).mkdir()
    with (
        caplog.at_level(logging.WARNING, "locknut"),
        locknut.connect(f"file://{tmp_path}", namespace="t", history=20) as locks,
    ):
        with locks.lock("x"):
            pass
        eventually(lambda: "history cannot be written" in caplog.text)
        with locks.lock("x") as lease:
            lease.check()


def test_a_network_file_system_has_none(tmp_path: Path) -> None:
    with pytest.raises(locknut.Unsupported, match="history"):
        locknut.connect(f"file://{tmp_path}?network=allow", history=20)
