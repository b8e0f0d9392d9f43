"""How far a memory service reaches, and what its holds and fences are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import locknut

SOURCE = str(Path(__file__).parents[3] / "src")

pytestmark = pytest.mark.memory


def test_another_name_is_another_service() -> None:
    with locknut.connect("memory:one") as one, locknut.connect("memory:two") as two:
        assert one.lock("x").acquire()
        assert two.lock("x").acquire(blocking=False)
        with locknut.connect("memory:one") as again:
            assert again.lock("x").acquire(blocking=False) is None


def test_a_forked_child_starts_with_an_empty_service() -> None:
    with locknut.connect("memory:forked") as locks:
        assert locks.lock("x").acquire()
        child = os.fork()
        if not child:
            try:
                with locknut.connect("memory:forked") as own:
                    os._exit(0 if own.lock("x").acquire(blocking=False) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert locks.lock("x").locked()


def test_processes_do_not_see_each_other() -> None:
    program = (
        "import locknut\n"
        "with locknut.connect('memory:apart') as locks:\n"
        "    print(bool(locks.lock('x').acquire(blocking=False)))"
    )
    with locknut.connect("memory:apart") as locks:
        assert locks.lock("x").acquire()
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": SOURCE},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout == "True\n"


def test_without_a_ttl_a_hold_lasts_until_its_release() -> None:
    with locknut.connect("memory:lasting") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        assert lease.remaining == float("inf")


def test_a_ttl_is_at_least_ten_milliseconds() -> None:
    with locknut.connect("memory:short") as locks:
        locks.lock("x", ttl=0.01)
        with pytest.raises(locknut.ConfigurationError):
            locks.lock("x", ttl=0.009)


def test_a_fence_reads_as_a_time_and_grows_across_names() -> None:
    with locknut.connect("memory:fences") as locks:
        before = time.time_ns() // 1000
        fences = []
        for number in range(200):
            with locks.lock(f"name-{number % 7}") as lease:
                fences.append(lease.fence)
    assert fences == sorted(set(fences))
    assert before - 32 <= fences[0]
    assert fences[0] < time.time_ns() // 1000 + 32 * 201
