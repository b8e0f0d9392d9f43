"""`locknut run` when the lock is lost while the command runs."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.cli.harness import PYTHON, Running, Shell, gone, state, until
from tests.cli.test_child import REPORTS

ON_LOST_FD = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.environ["LOCKNUT_FENCE"], flush=True)
os.read(int(os.environ["LOCKNUT_LOST_FD"]), 1)
print("lost", flush=True)
raise SystemExit(5)
"""
"""Says its fence, waits for the loss to be told by the pipe, and exits with 5."""

TELLS_FENCE = "echo $LOCKNUT_FENCE; "


def start(shell: Shell, *words: str) -> tuple[Running, str]:
    running = shell.start("run", *words)
    return running, running.line()


def test_a_broken_lock_stops_the_child_and_is_79(shell: Shell) -> None:
    reports = 'exec "$0" -c "$1" SIGTERM'
    words = ("sh", "-c", TELLS_FENCE + reports, PYTHON[0], REPORTS)
    running, fence = start(shell, "x", "--", *words)
    running.line()
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    assert running.line() == "got SIGTERM"
    code, _, err = running.finish()
    assert code == 79
    assert err.startswith(f'locknut: lost "x" (fence {fence}): it was broken by force')
    assert "; somebody else may have the lock now; stopping pid" in err
    assert "(SIGTERM, SIGKILL in 5s)" in err


def test_who_does_not_go_is_killed_with_its_group(shell: Shell) -> None:
    stubborn = "trap '' TERM; sh -c 'echo $$; exec sleep 1000'; echo never"
    running, fence = start(shell, "--grace", "0.2", "x", "-c", TELLS_FENCE + stubborn)
    pid = int(running.line())
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    code, out, _ = running.finish()
    assert (code, out) == (79, "")
    assert gone(pid)


def test_the_pipe_tells_the_child(shell: Shell) -> None:
    running, fence = start(shell, "x", "--", *PYTHON, ON_LOST_FD)
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    assert running.line() == "lost"
    assert running.finish()[0] == 79


def test_with_warn_the_child_goes_on(shell: Shell) -> None:
    running, fence = start(shell, "--on-lost", "warn", "x", "--", *PYTHON, ON_LOST_FD)
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    code, out, err = running.finish()
    assert (code, out) == (5, "lost\n")
    assert "goes on without the lock" in err


def test_with_kill_there_is_no_grace(shell: Shell) -> None:
    running, fence = start(shell, "--on-lost", "kill", "x", "-c", TELLS_FENCE + "exec sleep 1000")
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    code, _, err = running.finish()
    assert code == 79
    assert "(SIGKILL)" in err


def test_with_a_signal_the_child_decides(shell: Shell) -> None:
    reports = 'exec "$0" -c "$1" SIGUSR1'
    words = ("sh", "-c", TELLS_FENCE + reports, PYTHON[0], REPORTS)
    running, fence = start(shell, "--on-lost", "signal:USR1", "x", "--", *words)
    running.line()
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    assert running.line() == "got SIGUSR1"
    assert running.finish()[0] == 9


def test_a_stopped_child_is_told_too(shell: Shell) -> None:
    stops = "trap 'echo told; exit' TERM; kill -STOP $$"
    running, fence = start(shell, "--grace", "1h", "x", "-c", TELLS_FENCE + stops)
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    assert running.finish()[:2] == (79, "told\n")


FAILING = """
from locknut.backends.memory import open_engine as memory
from locknut.core.values import Busy
from locknut.errors import BackendError, BackendUnavailable

def unavailable(url):
    raise BackendUnavailable("no answer", backend="unavailable")

def refusing(url):
    raise BackendError("wrong password", backend="refusing")

def forgetful(url):
    engine = memory(url)
    make = engine.blocking
    def blocking(runtime):
        backend = make(runtime)
        async def renew(claims):
            raise BackendUnavailable("no answer", backend="forgetful")
        backend.renew = renew
        return backend
    engine.blocking = blocking
    return engine

def blind(url):
    engine = memory(url)
    make = engine.blocking
    def blocking(runtime):
        backend = make(runtime)
        async def attempt(claim, patience):
            return Busy(60.0)
        async def inspect(key=None):
            raise BackendUnavailable("no answer", backend="blind")
        backend.attempt, backend.inspect = attempt, inspect
        return backend
    engine.blocking = blocking
    return engine

def broken(url):
    return 1 / 0

def full(url):
    raise OSError(28, "No space left on device", "/somewhere")
"""
SCHEMES = ("blind", "unavailable", "refusing", "forgetful", "broken", "full")


@pytest.fixture
def failing(shell: Shell, tmp_path: object) -> Shell:
    """A shell that also knows engines in trouble, installed as a third party would."""
    place = f"{tmp_path}/engines"
    os.makedirs(f"{place}/failing-1.dist-info")
    with open(f"{place}/failing.py", "w") as module:
        module.write(FAILING)
    with open(f"{place}/failing-1.dist-info/METADATA", "w") as metadata:
        metadata.write("Metadata-Version: 2.1\nName: failing\nVersion: 1\n")
    with open(f"{place}/failing-1.dist-info/entry_points.txt", "w") as entries:
        entries.write("[locknut.backends]\n")
        entries.writelines(f"{scheme} = failing:{scheme}\n" for scheme in SCHEMES)
    shell.environment["PYTHONPATH"] += f":{place}"
    return shell


@pytest.mark.parametrize(("scheme", "code"), [("unavailable", 69), ("refusing", 77)])
def test_an_engine_in_trouble_has_its_own_code(failing: Shell, scheme: str, code: int) -> None:
    url = f"{scheme}://user:secret@host"
    got, out, err = failing.run("run", "-u", url, "x", "--", "echo", "ran")
    assert (got, out) == (code, "")
    assert err.startswith("locknut: ")
    assert "secret" not in err
    for verb in ("ls", "show x", "wait x", "break x --fence 1 --yes"):
        assert failing.run(*verb.split(), "-u", url)[0] == code


def test_a_mistake_of_ours_is_70_without_a_traceback(failing: Shell) -> None:
    code, _, err = failing.run("run", "-u", "broken:", "x", "true")
    assert code == 70
    assert "internal error" in err
    assert "Traceback" not in err


def test_what_the_system_refuses_is_77(failing: Shell) -> None:
    for verb in (("run", "x", "--", "echo", "ran"), ("ls",), ("show", "x"), ("wait", "x")):
        code, out, err = failing.run(*verb, env={"LOCKNUT_URL": "full:"})
        assert (code, out) == (77, "")
        assert "No space left on device: '/somewhere'" in err
        assert "internal" not in err
    words = ("run", "-u", "full:", "--on-backend-error", "skip", "x", "--", "echo", "ran")
    code, out, err = failing.run(*words)
    assert (code, out) == (0, "")
    assert "not run (skip)" in err


def test_without_an_engine_the_command_can_be_skipped(failing: Shell) -> None:
    skip = ("-u", "unavailable:", "--on-backend-error", "skip")
    code, out, err = failing.run("run", *skip, "x", "--", "echo", "ran")
    assert (code, out) == (0, "")
    assert "not run" in err


def test_without_an_engine_the_command_can_be_run(failing: Shell) -> None:
    go_on = ("-u", "unavailable:", "--on-backend-error", "run")
    told = "echo [$LOCKNUT_FENCE] [$LOCKNUT_LOST_FD] [$LOCKNUT_HELD]; exit 3"
    code, out, err = failing.run("run", *go_on, "x", "-c", told)
    assert (code, out) == (3, "[] [] []\n")
    assert "WITHOUT the lock" in err


def test_a_lock_known_to_be_busy_is_never_run_without(failing: Shell) -> None:
    go_on = ("-n", "-u", "blind:", "--on-backend-error", "run")
    code, out, err = failing.run("run", *go_on, "x", "--", "echo", "ran")
    assert (code, out) == (75, "")
    assert '"x" is held' in err


@pytest.mark.slow
def test_a_hold_that_cannot_be_renewed_stops_the_child_in_time(failing: Shell) -> None:
    stubborn = "trap 'echo told' TERM; echo started; while :; do sleep 0.01; done"
    words = ("-u", "forgetful:", "--ttl", "6", "--grace", "1.9", "x", "-c", stubborn)
    running, line = start(failing, *words)
    assert line == "started"
    assert running.line() == "told"
    code, _, err = running.finish()
    assert code == 79
    assert 'losing "x"' in err
    assert "no renewal was confirmed" in err


@pytest.mark.slow
def test_who_wakes_up_too_late_kills_at_once(failing: Shell) -> None:
    stubborn = "trap '' TERM; echo started; exec sleep 1000"
    words = ("-u", "forgetful:", "--ttl", "3", "--grace", "0.2", "--json", "x", "-c", stubborn)
    running, _ = start(failing, *words)
    running.send(signal.SIGSTOP)
    stopped = time.monotonic()
    until(lambda: time.monotonic() > stopped + 3)
    running.send(signal.SIGCONT)
    code, _, err = running.finish()
    assert code == 79
    assert json.loads(err)["reason"] == "expired"
    assert "(SIGKILL)" in err


@pytest.fixture
def stalled() -> Iterator[tuple[int, int]]:
    """A pipe that takes nothing more: what reads it stands still."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"-" * 4096)
    yield reader, writer
    os.close(writer)
    os.close(reader)


@pytest.mark.slow
def test_a_reader_of_our_messages_who_stops_does_not_keep_the_command_alive(
    failing: Shell, stalled: tuple[int, int]
) -> None:
    lease = ("-u", "forgetful:", "--ttl", "5", "--grace", "0.1")
    leaves = "sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & exit 7"
    running = failing.start("run", *lease, "x", "-c", leaves, stderr=stalled[1])
    pid = int(running.line())
    until(lambda: gone(pid))  # although the line about what was left behind finds no reader
    reader = stalled[0]
    assert os.read(reader, 4096) == b"-" * 4096
    assert running.process.wait(timeout=60) == 79


@pytest.mark.slow
def test_a_hold_that_is_over_before_the_command_starts_starts_none(
    failing: Shell, stalled: tuple[int, int]
) -> None:
    reader, writer = stalled
    lease = ("-v", "-u", "forgetful:", "--ttl", "2", "--grace", "0.1")
    running = failing.start("run", *lease, "x", "--", "echo", "ran", stderr=writer)
    # Blocked in the line "acquired": nothing but the time tells when the hold is over.
    begun = time.monotonic()
    until(lambda: time.monotonic() > begun + 6)
    assert os.read(reader, 4096) == b"-" * 4096
    code, out, _ = running.finish()
    assert (code, out) == (79, "")
    assert b"lost" in os.read(reader, 4096)


def test_a_break_while_the_command_ends_is_79(shell: Shell) -> None:
    running, fence = start(shell, "x", "-c", TELLS_FENCE + "echo $$; read line; exit 0")
    pid = int(running.line())
    running.send(signal.SIGSTOP)
    until(lambda: state(running.pid) == "T")
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    running.stdin.close()
    running.process.stdin = None
    until(lambda: gone(pid))
    running.send(signal.SIGCONT)
    code, _, err = running.finish()
    assert code == 79
    assert "somebody else may have" in err


@pytest.mark.slow
def test_the_signal_comes_before_the_end_of_the_hold(failing: Shell) -> None:
    exits = "trap 'exit 0' TERM; echo started; while :; do sleep 0.01; done"
    words = ("-u", "forgetful:", "--ttl", "6", "--grace", "1.9", "--json", "-v", "x", "-c", exits)
    running, _ = start(failing, *words)
    code, _, err = running.finish()
    assert code == 79  # stopped because of the loss, whatever it exits with
    assert '"reason": "not_renewed"' in err  # that is: before the loss
    assert signal.SIGTERM.name in err
