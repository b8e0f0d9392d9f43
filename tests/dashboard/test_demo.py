"""`make demo-ops` is over when it is ended, whatever it is just playing: it leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

import locknut
from tests.contracts.sources import ROOT
from tests.servers.processes import until

SECONDS = 60.0


def runs(group: int) -> bool:
    """Whether any process of it is there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_it(end: signal.Signals) -> None:
    command = [sys.executable, "-u", str(ROOT / "scripts" / "demo_ops.py"), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as demo:  # type: ignore[call-overload]
        try:
            url = [demo.stdout.readline() for _ in range(3)][-1].split()[-1]
            with locknut.connect(url) as locks:  # what is to be broken is held: it is in the middle
                until(lambda: locks.info("payments:settle").holders, "it plays")
            demo.send_signal(end)
            _, said = demo.communicate(timeout=SECONDS)
            assert not said
            until(lambda: not runs(demo.pid), "nothing is left")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(demo.pid, signal.SIGKILL)
