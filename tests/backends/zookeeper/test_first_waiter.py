"""Who waits for a permit waits behind the first waiter, even if a permit is free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import locknut
from locknut.core.values import Busy, Granted, Mode
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.zookeeper.conftest import PATIENCE, claim, engine, eventually

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]
SESSION = 3.0
WAITER = """
import sys, locknut
locknut.connect(sys.argv[1]).semaphore("x", 1).acquire()
"""


def test_a_stopped_one_is_waited_for_until_its_session_is_over(url: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WAITER, f"{url}?session_timeout={SESSION:g}"]
    with locknut.connect(url) as locks, subprocess.Popen(command, env=environment) as waiter:
        try:
            with locks.semaphore("x", 1):
                eventually(lambda: locks.info("x").waiters, "it waits")
                waiter.send_signal(signal.SIGSTOP)
                stopped = time.monotonic()
            assert locks.info("x").holders == ()
            with locks.semaphore("x", 1, timeout=PATIENCE):
                assert time.monotonic() - stopped > SESSION / 2
        finally:
            waiter.kill()


def test_one_with_a_smaller_limit_is_waited_for(url: str) -> None:
    port = engine(url).blocking(ThreadRuntime())
    held = [claim(mode=Mode.PERMIT, permits=3) for _ in range(2)]
    for each in held:
        assert isinstance(run(port.attempt(each, 0.0)), Granted)
    modest, behind = claim(mode=Mode.PERMIT, permits=2), claim(mode=Mode.PERMIT, permits=3)
    for each in (modest, behind):
        assert isinstance(run(port.attempt(each, 0.0)), Busy)
    run(port.release(modest))
    assert isinstance(run(port.attempt(behind, 0.0)), Granted)
    run(port.close())
