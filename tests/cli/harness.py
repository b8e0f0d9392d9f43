"""Real `locknut` processes: started, talked to through pipes, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import locknut

SOURCE = str(Path(locknut.__file__).parent.parent)
PYTHON = [sys.executable, "-I", "-S", "-u", "-c"]
LOCKNUT = [sys.executable, "-m", "locknut"]
DEADLINE = 60.0


def default_signals() -> None:
    """As a login shell leaves them, whatever started the tests."""
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
        signal.signal(signum, signal.SIG_DFL)


class Running:
    """A started `locknut`."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process
        self.pid = process.pid

    @property
    def out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def stdin(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin

    def line(self) -> str:
        """The next line the command writes; "" when nobody can write any more."""
        return self.out.readline().rstrip("\n")

    def error_line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip("\n")

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)

    def finish(self) -> tuple[int, str, str]:
        """Exit code, the rest of stdout, the rest of stderr."""
        out, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out, err


class Shell:
    """Starts `locknut` against one engine, in an environment of its own."""

    def __init__(self, url: str):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("LOCKNUT")}
        self.environment = {**kept, "PYTHONPATH": SOURCE, "LOCKNUT_URL": url, "LOGNAME": "tester"}
        self._started: list[subprocess.Popen[str]] = []

    def start(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        stdin: int | None = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        before: Callable[[], None] = default_signals,
        pass_fds: Sequence[int] = (),
        process_group: int | None = None,
    ) -> Running:
        process = subprocess.Popen(
            [*LOCKNUT, *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**self.environment, **(env or {})},
            preexec_fn=before,  # noqa: PLW1509  # the tests that use it have no other threads
            pass_fds=pass_fds,
            process_group=process_group,
        )
        self._started.append(process)
        return Running(process)

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        return self.start(*words, env=env, stdin=subprocess.DEVNULL).finish()

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait(timeout=DEADLINE)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def until(happened: Callable[[], object]) -> None:
    """For what only looking can tell (a process's state): look until it is so."""
    deadline = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def state(pid: int) -> str:
    """The kernel's letter for what a process does: R, S, T (stopped), Z; "" when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return stat.rpartition(")")[2].split()[0]


def gone(pid: int) -> bool:
    return state(pid) in {"", "Z"}


def catches(pid: int, signum: int) -> bool:
    """Whether a process has come so far that it handles this signal."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signum - 1) & 1)
