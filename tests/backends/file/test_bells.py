"""What a thread sleeps on: a ring, or the end of a process that is followed."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from locknut.backends.file import this_process
from locknut.backends.file.bells import _MANY as MANY
from locknut.backends.file.bells import Ringer
from locknut.backends.file.sync import PollBell
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadSignal, run

LONG = 30.0
SHORT = 0.05


@pytest.fixture
def bell() -> Iterator[PollBell]:
    ringer = Ringer()
    made = PollBell(ringer, ThreadSignal, now, lambda: None)
    made.hang(b"\0locknut-test-" + secrets.token_hex(8).encode())
    yield made
    made.close()
    ringer.close()


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-c", "input()"]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    yield started
    for process in started:
        process.kill()
        process.communicate()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_who_is_followed_next_is_not_taken_for_the_one_that_ended(
    bell: PollBell, processes: list[subprocess.Popen[bytes]]
) -> None:
    # What woke us is attended to late, and the kernel gives the second the first one's number.
    first, second = processes
    assert bell.follow({first.pid}, anew=True)
    _end(first)
    assert run(bell.wait(now() + LONG))

    assert bell.follow({second.pid}, anew=True)
    assert not run(bell.wait(now() + SHORT))
    _end(second)
    assert run(bell.wait(now() + LONG))


def test_a_process_that_ended_wakes_once(
    bell: PollBell, processes: list[subprocess.Popen[bytes]]
) -> None:
    first, _ = processes
    assert bell.follow({first.pid}, anew=True)
    _end(first)
    assert run(bell.wait(now() + LONG))
    assert bell.follow({first.pid}, anew=False)
    assert not run(bell.wait(now() + SHORT))


def test_every_ring_wakes_once(bell: PollBell) -> None:
    bell.notify()
    bell.notify()
    assert run(bell.wait(now() + LONG))
    assert run(bell.wait(now() + LONG))
    assert not run(bell.wait(now() + SHORT))


def test_a_ring_is_not_lost_when_a_process_ends_at_the_same_time(
    bell: PollBell, processes: list[subprocess.Popen[bytes]]
) -> None:
    first, _ = processes
    assert bell.follow({first.pid}, anew=True)
    _end(first)
    bell.notify()
    bell.notify()
    assert run(bell.wait(now() + LONG))
    assert run(bell.wait(now() + LONG))
    assert not run(bell.wait(now() + SHORT))


@pytest.mark.parametrize("at", ["_listen_to", "_stop_listening_to"])
def test_a_bell_is_closed_wherever_hanging_it_anew_was_interrupted(
    bell: PollBell, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Ctrl-C: the old socket is not listened to any more, or closed, and the new one not yet."""
    step = getattr(bell, at)

    def interrupted(fd: int) -> None:
        if at == "_stop_listening_to":
            step(fd)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bell, at, interrupted)
        with pytest.raises(KeyboardInterrupt):
            bell.hang(b"\0locknut-test-" + secrets.token_hex(8).encode())
    bell.close()


def test_an_interrupted_ringer_rings_again(bell: PollBell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while its full socket makes room for a new one: it kept the closed one for ever."""
    ringer = bell._ringer
    for _ in range(MANY):
        bell.notify()
        run(bell.wait(now() + LONG))
        bell._attend()
    close = this_process.close_socket

    def interrupted(made: socket.socket) -> None:
        close(made)
        raise KeyboardInterrupt

    def ring_until_it_is_full() -> None:
        while True:
            ringer.ring(bell._address)

    with monkeypatch.context() as patched:
        patched.setattr(this_process, "close_socket", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ring_until_it_is_full()
    for _ in range(MANY):
        bell._take_ring()
    bell.notify()
    assert run(bell.wait(now() + LONG))
