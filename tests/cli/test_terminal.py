"""`locknut run` on a terminal: the keyboard, the foreground group, the stop key."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from locknut.cli.messages import Messenger
from locknut.cli.option_table import NEVER
from locknut.cli.option_values import OnLost
from locknut.cli.signals import Signals
from locknut.cli.supervision import Rules, Supervisor
from tests.cli.harness import LOCKNUT, PYTHON, Shell, gone
from tests.cli.test_child import REPORTS
from tests.cli.test_contention import hold, let_go

LEADER = """
import json, os, signal, subprocess, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def foreground():
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    for name in ("SIGTTOU", "SIGINT", "SIGQUIT", "SIGTSTP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
job = subprocess.Popen(sys.argv[1:], preexec_fn=foreground)
while True:
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status): break
    print("job stopped", flush=True)
    os.tcsetpgrp(0, os.getpgrp())
    sys.stdin.readline()
    os.tcsetpgrp(0, job.pid)
    os.killpg(job.pid, signal.SIGCONT)
job.returncode = os.waitstatus_to_exitcode(status)
print("job ended", job.returncode, flush=True)
"""
"""A shell in small: one job in the foreground; after a stop, a line continues it."""


class Terminal:
    """A pseudo-terminal with a job-control shell and `locknut` as its foreground job."""

    def __init__(self, shell: Shell, *words: str, around: tuple[str, ...] = ()):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", LEADER, *around, *LOCKNUT, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=shell.environment,
            preexec_fn=self._own,  # noqa: PLW1509  # no other threads here
        )
        os.close(slave)
        self._seen = ""

    @staticmethod
    def _own() -> None:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def until(self, text: str) -> str:
        """What is on the screen up to and including this text."""
        while text not in self._seen:
            try:
                data = os.read(self.master, 4096)
            except OSError:  # how Linux tells that the last user of a terminal has gone
                data = b""
            assert data, f"{text!r} never came: {self._seen!r}"
            self._seen += data.decode()
        shown, self._seen = self._seen.split(text, 1)
        return shown + text

    def line(self) -> str:
        return self.until("\n").strip()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=60)
        os.close(self.master)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def on_terminal(terminals: list[Terminal], shell: Shell, *words: str) -> Terminal:
    terminals.append(Terminal(shell, *words))
    return terminals[-1]


def test_the_child_reads_the_keyboard(terminals: list[Terminal], shell: Shell) -> None:
    asks = "read word; echo said $word"
    terminal = on_terminal(terminals, shell, "run", "x", "-c", asks)
    terminal.press("hello\n")
    terminal.until("said hello")
    terminal.until("job ended 0")


def test_the_child_is_in_the_foreground_group(terminals: list[Terminal], shell: Shell) -> None:
    shows = "import os; print(os.getpgrp() == os.tcgetpgrp(0) == os.getpgid(os.getppid()))"
    terminal = on_terminal(terminals, shell, "run", "x", "--", *PYTHON, shows)
    assert terminal.line() == "True"
    terminal.until("job ended 0")


@pytest.mark.parametrize(("key", "name"), [("\x03", "SIGINT"), ("\x1c", "SIGQUIT")])
def test_the_interrupt_key_is_the_childs_alone(
    terminals: list[Terminal], shell: Shell, key: str, name: str
) -> None:
    terminal = on_terminal(terminals, shell, "run", "x", "--", *PYTHON, REPORTS, name)
    terminal.line()
    terminal.press(key)
    terminal.until(f"got {name}")
    terminal.until("job ended 9")


class Recorder:
    """Stands in for a Child and writes down what it was sent."""

    def __init__(self, *, on_terminal: bool):
        self.on_terminal = on_terminal
        self.code: int | None = None
        self.sent: list[int] = []

    def send(self, signum: int) -> None:
        self.sent.append(signum)


@pytest.mark.parametrize("on_terminal", [True, False])
def test_what_the_terminal_delivers_is_not_sent_again(on_terminal: bool) -> None:
    child = Recorder(on_terminal=on_terminal)
    rules = Rules(OnLost(signal.SIGTERM, stops=True), grace=5.0, max_hold=NEVER)
    with Signals() as signals:
        supervisor = Supervisor(child, None, signals, Messenger(), rules)  # type: ignore[arg-type]  # stands in
        for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            supervisor._heed(signum)
    keyboard = [] if on_terminal else [signal.SIGINT, signal.SIGQUIT]
    assert child.sent == [*keyboard, signal.SIGTERM, signal.SIGHUP]


def test_a_signal_that_is_not_the_terminals_is_passed_on(
    terminals: list[Terminal], shell: Shell
) -> None:
    terminal = on_terminal(terminals, shell, "run", "x", "--", *PYTHON, REPORTS, "SIGTERM")
    terminal.line()
    os.kill(_only_child(terminal.process.pid), signal.SIGTERM)
    terminal.until("got SIGTERM")
    terminal.until("job ended 9")


def _only_child(pid: int) -> int:
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        (only,) = children.read().split()
    return int(only)


def test_the_interrupt_key_ends_a_wait(terminals: list[Terminal], shell: Shell) -> None:
    holder, _ = hold(shell, "x")
    terminal = on_terminal(terminals, shell, "run", "x", "--", "true")
    terminal.until("waiting for the lock ...")
    terminal.press("\x03")
    terminal.until("job ended 130")
    let_go(holder)


def test_the_stop_key_stops_both_and_both_go_on(terminals: list[Terminal], shell: Shell) -> None:
    terminal = on_terminal(terminals, shell, "run", "x", "--", "cat")
    terminal.press("one\n")
    terminal.until("one\r\none")
    terminal.press("\x1a")
    terminal.until("job stopped")
    assert shell.run("run", "-n", "-q", "x", "true")[0] == 75
    terminal.press("\n")
    terminal.press("two\n")
    terminal.until("two\r\ntwo")
    terminal.press("\x04")
    terminal.until("job ended 0")


def test_a_child_that_stops_itself_gives_the_prompt_back(
    terminals: list[Terminal], shell: Shell
) -> None:
    terminal = on_terminal(terminals, shell, "run", "x", "-c", "kill -STOP $$; echo went on")
    terminal.until("job stopped")
    terminal.press("\n")
    terminal.until("went on")
    terminal.until("job ended 0")


def test_a_loss_stops_the_whole_command_but_not_its_neighbours(
    terminals: list[Terminal], shell: Shell
) -> None:
    deep = "echo $LOCKNUT_FENCE; sh -c 'echo $$; exec sleep 1000'; echo never"
    script = ("sh", "-c", '"$@"; echo script goes on after $?', "sh")  # in the same group
    terminal = Terminal(shell, "run", "x", "-c", deep, around=script)
    terminals.append(terminal)
    fence, pid = terminal.line(), int(terminal.line())
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    assert "never" not in terminal.until("script goes on after 79")
    terminal.until("job ended 0")
    assert gone(pid)


def test_break_asks_on_a_terminal(terminals: list[Terminal], shell: Shell) -> None:
    holder, fence = hold(shell, "x")
    terminal = on_terminal(terminals, shell, "break", "x")
    assert str(fence) in terminal.until("[y/N] ")
    terminal.press("\n")
    terminal.until("nothing was broken")
    terminal.until("job ended 75")
    terminal = on_terminal(terminals, shell, "break", "x")
    terminal.until("[y/N] ")
    terminal.press("y\n")
    terminal.until('broke "x"')
    terminal.until("job ended 0")
    assert holder.finish()[0] == 79
