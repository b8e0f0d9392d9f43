"""`locknut run` and processes: signals, groups, orphans, stops."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from locknut.cli import linux
from tests.cli.harness import DEADLINE, PYTHON, Shell, gone, state, until

REPORTS = r"""
import os, signal, sys, time
def told(signum, frame):
    os.write(1, f"got {signal.Signals(signum).name}\n".encode())
    if signum != signal.SIGCONT: sys.exit(9)
for name in sys.argv[1:]: signal.signal(getattr(signal, name), told)
print(os.getpid(), flush=True)
while True: time.sleep(0.1)
"""
"""Says its pid, then which signal it got, and exits with 9. A signal that comes on the way into
`signal.pause` would never be noticed."""

ANNOUNCED = "echo $$; exec sleep 1000"
"""A process that says its pid and stays."""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_signals_are_passed_on_and_the_childs_code_counts(shell: Shell, name: str) -> None:
    running = shell.start("run", "x", "--", *PYTHON, REPORTS, name)
    running.line()
    running.send(getattr(signal, name))
    assert running.line() == f"got {name}"
    assert running.finish() == (9, "", "")


def test_signals_reach_the_whole_group(shell: Shell) -> None:
    running = shell.start("run", "x", "-c", f"sh -c '{ANNOUNCED}' & sh -c '{ANNOUNCED}' & wait")
    pids = [int(running.line()), int(running.line())]
    running.send(signal.SIGTERM)
    assert running.finish()[0] == 143
    assert all(gone(pid) for pid in pids)


def test_without_a_terminal_the_child_leads_a_session(shell: Shell) -> None:
    show = "import os; print(os.getpid(), os.getsid(0), os.getpgrp())"
    pid, session, group = shell.run("run", "x", "--", *PYTHON, show)[1].split()
    assert pid == session == group


@pytest.mark.parametrize("policy", ["term", "kill"])
def test_the_child_dies_with_a_killed_locknut(shell: Shell, policy: str) -> None:
    ignoring = "trap '' TERM HUP INT; " + ANNOUNCED
    running = shell.start("run", "--on-lost", policy, "x", "--", "sh", "-c", ignoring)
    pid = int(running.line())
    running.send(signal.SIGKILL)
    assert running.line() == ""  # the child's end of the pipe is closed
    until(lambda: gone(pid))


def test_a_killed_locknut_sends_the_signal_that_was_asked_for(shell: Shell) -> None:
    running = shell.start(
        *("run", "--on-lost", "signal:USR1", "x", "--", *PYTHON, REPORTS, "SIGUSR1")
    )
    pid = int(running.line())
    running.send(signal.SIGKILL)
    assert running.line() == "got SIGUSR1"
    until(lambda: gone(pid))


def test_with_warn_the_child_outlives_a_killed_locknut(shell: Shell) -> None:
    waits = "import os; print(1); os.read(int(os.environ['LOCKNUT_LOST_FD']), 1); print(2)"
    running = shell.start("run", "--on-lost", "warn", "x", "--", *PYTHON, waits)
    assert running.line() == "1"
    running.send(signal.SIGKILL)
    assert running.line() == "2"


def test_a_parent_that_died_before_the_call_is_noticed() -> None:
    asked: list[tuple[int, int]] = []

    def call(option: int, value: int) -> bool:
        asked.append((option, value))
        return True

    pid = os.fork()
    if pid == 0:
        stranger = os.getpid()  # never our own parent
        linux.die_with_parent(call, signal.SIGKILL, stranger)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGKILL
    linux.die_with_parent(call, signal.SIGTERM, os.getppid())
    assert asked == [(1, signal.SIGTERM)]


def test_parents_are_signalled_before_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    me, group = os.getpid(), 7
    table = {9: (3, group), 3: (8, group), 8: (me, group), 4: (8, 1), 5: (1, group), 2: (4, group)}
    monkeypatch.setattr(linux, "_pids", lambda: list(table))
    monkeypatch.setattr(linux, "_parent_and_group", table.__getitem__)
    assert linux.descendants(group) in ([8, 3, 9, 2], [8, 3, 2, 9], [8, 2, 3, 9])


@pytest.mark.slow
def test_the_lock_is_kept_until_the_whole_group_is_gone(shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    running = shell.start("run", "-v", "x", "-c", f"(echo $$; read line < {gate}) & exit 4")
    assert "acquired" in running.error_line()
    leader = int(running.line())
    assert "the command has ended but left processes" in running.error_line()
    assert gone(leader)
    assert shell.run("run", "-n", "-q", "x", "--", "true")[0] == 75
    gate.write_text("go\n")
    assert running.finish()[0] == 4
    assert shell.run("run", "-n", "x", "--", "true")[0] == 0


def test_a_daemon_leaves_the_lock(shell: Shell) -> None:
    running = shell.start("run", "x", "-c", f"setsid sh -c '{ANNOUNCED}' 2>/dev/null & read line")
    daemon = int(running.line())
    try:
        running.stdin.close()
        assert running.process.wait(timeout=DEADLINE) == 1
        assert not gone(daemon)
        assert shell.run("run", "-n", "x", "--", "true")[0] == 0
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_stop_and_continue_reach_the_group(shell: Shell) -> None:
    # In a group of its own with its parent in the same session: somebody could continue it.
    running = shell.start("run", "x", "--", *PYTHON, REPORTS, "SIGCONT", process_group=0)
    pid = int(running.line())
    running.send(signal.SIGTSTP)
    until(lambda: state(pid) == state(running.pid) == "T")
    running.send(signal.SIGCONT)
    assert running.line() == "got SIGCONT"
    running.send(signal.SIGTERM)
    assert running.finish()[0] == 143


def test_where_nobody_could_continue_it_a_stop_is_not_taken(shell: Shell) -> None:
    running = shell.start("run", "x", "--", *PYTHON, REPORTS, "SIGCONT", before=os.setsid)
    running.line()
    running.send(signal.SIGTSTP)
    assert running.line() == "got SIGCONT"
    running.send(signal.SIGTERM)
    assert running.finish()[0] == 143


@pytest.mark.slow
def test_max_hold_stops_the_group_and_is_124(shell: Shell) -> None:
    running = shell.start("run", "--max-hold", "3", "x", "--", *PYTHON, REPORTS, "SIGTERM")
    running.line()
    assert running.line() == "got SIGTERM"
    code, _, err = running.finish()
    assert code == 124
    assert "--max-hold 3s is over" in err


@pytest.mark.slow
def test_who_does_not_go_is_killed_after_the_grace(shell: Shell) -> None:
    stubborn = "trap '' TERM; " + ANNOUNCED
    words = ("--max-hold", "3", "--grace", "0.2", "x", "-c")
    running = shell.start("run", *words, f'sh -c "{stubborn}"; echo never')
    pid = int(running.line())
    code, out, err = running.finish()
    assert (code, out) == (124, "")
    assert "SIGKILL in 200ms" in err
    assert gone(pid)
