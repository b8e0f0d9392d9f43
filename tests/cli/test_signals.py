"""Which signals end a wait for the lock, and which do not."""

from __future__ import annotations

import signal

import pytest

from locknut.cli import signals
from locknut.runtimes import clock
from tests.cli.harness import Shell, default_signals, until
from tests.cli.test_contention import hold, let_go, waiting


def interrupted_twice(monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> int:
    """Which signal ends a wait that gets SIGTERM, and SIGINT amid the way out so much later."""
    time = [100.0]
    monkeypatch.setattr(clock, "now", lambda: time[0])
    # Whoever starts the tests in the background of a script has it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _interrupted_twice(time, seconds)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupted_twice(time: list[float], seconds: float) -> int:
    with signals.Signals() as caught:
        try:
            with caught.interrupting():
                try:
                    signal.raise_signal(signal.SIGTERM)
                finally:
                    time[0] += seconds
                    signal.raise_signal(signal.SIGINT)
        except signals.Interrupted as interruption:
            return interruption.signum
    raise AssertionError("it was not interrupted")


def test_a_second_signal_right_after_the_first_is_the_same_wish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert interrupted_twice(monkeypatch, seconds=0.5) == signal.SIGTERM


def test_a_second_signal_later_cuts_the_way_out_short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interrupted_twice(monkeypatch, seconds=2.0) == signal.SIGINT


def nohup() -> None:
    default_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_signal_that_is_ignored_does_not_end_the_wait(shell: Shell) -> None:
    holder, _ = hold(shell, "x")
    waiter = shell.start("run", "x", "--", "echo", "ran", before=nohup)
    until(lambda: waiting(shell) == 1)
    waiter.send(signal.SIGHUP)
    let_go(holder)
    assert waiter.finish()[:2] == (0, "ran\n")
