"""The supervisor at the edges of a loss, step by step: which signal is sent after which look."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.cli.harness import PYTHON, Shell, state, until

SUPERVISED = """
import os, sys, time
import locknut
from locknut.cli import child, option_values, supervision
from locknut.cli.signals import Signals
from locknut.cli.messages import Messenger

class Noting(child.Child):
    def send(self, signum):
        sent.append(int(signum))
        super().send(signum)

sent, command, what = [], sys.argv[2:], sys.argv[1]
locks = locknut.connect("memory:")
lease = locks.lock("x", ttl=1, auto_renew=False).acquire()
with Signals() as signals:
    signals.attend_child()
    start = child.Start(command, dict(os.environ), False, 9)
    started = child.spawn(start)
    started.__class__ = Noting
    rules = supervision.Rules(option_values.on_lost("term"), 0.2, float("inf"))
    supervisor = supervision.Supervisor(started, lease, signals, Messenger(), rules)
    if what == "pause":
        print("ready", flush=True)
        supervisor._pause()
    else:
        while not started.gone() or lease.held:
            time.sleep(0.01)
    print(supervisor.watch(), *sent, flush=True)
"""
"""Runs a command under a lease that is not renewed; tells the exit code and what was sent."""


def test_after_a_stop_the_hold_is_looked_at_before_the_command_goes_on(shell: Shell) -> None:
    words = [sys.executable, "-c", SUPERVISED, "pause", "sleep", "1000"]
    running = subprocess.Popen(
        words,
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    with running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        until(lambda: state(running.pid) == "T")
        since = time.monotonic()
        until(lambda: time.monotonic() > since + 1.1)  # longer than the hold lasts
        running.send_signal(signal.SIGCONT)
        code, *sent = map(int, running.stdout.readline().split())
    assert code == 79
    assert sent[:2] == [signal.SIGSTOP, signal.SIGKILL]


@pytest.mark.parametrize("own", [0, 7])
def test_a_loss_that_is_found_when_the_command_has_ended_is_79(shell: Shell, own: int) -> None:
    words = [sys.executable, "-c", SUPERVISED, "end", *PYTHON, f"raise SystemExit({own})"]
    done = subprocess.run(
        words, env=shell.environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split()[0] == "79"
    assert "the command has ended, but somebody else may have run at the same time" in done.stderr
