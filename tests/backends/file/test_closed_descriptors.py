"""In a daemon that closed stdin, stdout and stderr, no file of ours gets one of their numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parents[3] / "src")

DAEMON = """
import os, sys, locknut
from locknut.guards import FileGuard
place, result = sys.argv[1:]
for number in range(3):
    os.close(number)

def prints():
    for number in range(3):
        try:
            os.write(number, b"what a stray print writes")
        except OSError:
            pass

with locknut.connect(f"file://{place}/locks") as locks:
    with locks.lock("x") as lease, FileGuard(f"{place}/data").enter(lease).step() as guard:
        prints()
        guard.write_text("done")
        prints()
        lease.check()
    with locks.rwlock("y").read(), locks.semaphore("z", 2):
        prints()
with open(result, "w") as file:
    file.write("fine")
"""

pytestmark = pytest.mark.faults


def test_a_stray_print_reaches_neither_a_lock_file_nor_a_guard(tmp_path: Path) -> None:
    result = tmp_path / "result"
    done = subprocess.run(
        [sys.executable, "-c", DAEMON, str(tmp_path), str(result)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        timeout=60,
        check=False,
    )
    assert result.read_text() == "fine", done
    written = [*(tmp_path / "locks").iterdir(), tmp_path / "data.fence", tmp_path / "data"]
    assert len(written) == 5
    assert not [file for file in written if b"stray" in file.read_bytes()]
    assert (tmp_path / "data").read_text() == "done"
