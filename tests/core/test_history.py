"""Histories survive the file they are written to, also when the writer is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from locknut.core.values import Mode
from tests.simulation.checker.history import (
    Event,
    Journal,
    Kind,
    from_json,
    read,
    timeline,
    to_json,
)

EVENTS = [
    Event(1.25, "p", Kind.CALLED, "n", "h", mode=Mode.PERMIT, permits=3, owner="o", fair=True),
    Event(2.5, "p", Kind.ACQUIRED, "n", "h", fence=2**52 + 1, until=None),
    Event(3.0, "engine", Kind.FREED, "n", "c", by="d", note="released"),
    Event(4.0, "", Kind.ENDED),
]

WRITER = """
import itertools, sys
from pathlib import Path
from tests.simulation.checker.history import Event, Journal, Kind
journal = Journal(Path(sys.argv[1]))
for i in itertools.count():
    journal(Event(float(i), "child", Kind.CHECKED, "n", str(i)))
    if i == 100:
        print("written", flush=True)
"""


def test_a_line_gives_the_event_back() -> None:
    assert [from_json(to_json(event)) for event in EVENTS] == EVENTS


def test_files_of_several_processes_are_merged_by_time(tmp_path: Path) -> None:
    for i in (0, 1):
        journal = Journal(tmp_path / f"{i}.jsonl")
        for event in EVENTS[i::2]:
            journal(event)
        journal.close()
    assert read(tmp_path.glob("*.jsonl")) == EVENTS


def test_a_killed_writer_leaves_every_event_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "child.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "written\n"
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    child.stdout.close()
    found = [int(event.hold) for event in read([path])]
    assert found == list(range(len(found)))
    assert len(found) > 100


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    path.write_text(to_json(EVENTS[0]) + "\n" + to_json(EVENTS[1])[:20])
    assert read([path]) == EVENTS[:1]


def test_the_timeline_tells_what_is_unusual() -> None:
    told = timeline(EVENTS).splitlines()
    assert "permit/3" in told[0]
    assert "fence=4503599627370497" in told[1]
    assert "by=d" in told[2]


def test_a_journal_is_private(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.close()
    assert os.stat(tmp_path / "j").st_mode & 0o077 == 0
