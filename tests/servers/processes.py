"""One server process: started, waited for, stopped by its own id, and never left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import SkipTest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Seconds until a server that does not answer has failed; it takes some milliseconds, and three of
Java's on a busy machine many seconds."""
LOOK_EVERY = 0.01

_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")


def program(name: str) -> str:
    """Where this server is: what `make servers` fetched, else what is installed here."""
    fetched = ROOT / ".servers" / "bin" / name
    found = str(fetched) if fetched.exists() else shutil.which(name)
    if found is None:
        # For pytest this is a skip, which fails in CI (tests/conftest.py).
        raise SkipTest(f"no {name} here: run `make servers`")
    return found


def until(question: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Ask until the answer is true; an OSError, as of a refused connection, is a no."""
    deadline = time.monotonic() + patience
    problem: OSError | None = None
    while time.monotonic() < deadline:
        try:
            if question():
                return
        except OSError as refused:
            problem = refused
        time.sleep(LOOK_EVERY)
    raise TimeoutError(f"{what}: not within {patience} s ({problem})") from problem


def exists(pid: int) -> bool:
    """Whether this process is there; one that is dead and was not yet asked about is not."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return False
    return told.rpartition(")")[2].split()[0] != "Z"


class Process:
    """A program with its log; dies with the process that started it, however that dies.

    `rights` are words for `setpriv`: whose process it is, if it must not be root's.
    """

    def __init__(self, command: list[str], log: Path, rights: Sequence[str] = ()) -> None:
        self.log = log
        with log.open("ab") as output:
            self._popen = _spawn(command, output.fileno(), rights)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def wait_until(self, answers: Callable[[], object]) -> None:
        """Until the server answers; what it wrote is shown if it ends or stays silent instead."""

        def answered() -> object:
            if not self.running:
                raise Ended(f"ended with {self._popen.returncode}:\n{self.log.read_text()}")
            return answers()

        try:
            until(answered, "the server answers")
        except TimeoutError as problem:
            problem.add_note(self.log.read_text())
            raise

    def stop(self) -> None:
        """SIGSTOP, and only return when the kernel says that it stands still."""
        self._popen.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def cont(self) -> None:
        self._popen.send_signal(signal.SIGCONT)

    def end(self, ending: signal.Signals) -> None:
        """Ask it to end by this signal, and only return when it is gone."""
        self._popen.send_signal(ending)
        self._popen.wait(PATIENCE)

    def kill(self) -> None:
        """SIGKILL, and only return when it is gone; a second time does nothing."""
        self._popen.kill()
        self._popen.wait(PATIENCE)


class Ended(Exception):
    """The server ended instead of answering."""


def _spawn(command: list[str], output: int, rights: Sequence[str]) -> subprocess.Popen[bytes]:
    """The death signal follows the *thread* that started it: one that stays until the end."""
    if threading.current_thread() is threading.main_thread():
        return _spawn_here(command, output, rights)
    return _spawner.submit(_spawn_here, command, output, rights).result()


def _spawn_here(command: list[str], output: int, rights: Sequence[str]) -> subprocess.Popen[bytes]:
    setpriv = shutil.which("setpriv")
    tied = [setpriv, *rights, "--pdeathsig", "KILL", *command] if setpriv else command
    return subprocess.Popen(
        tied,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for the tests, which then stop it themselves
    )
