"""Several hosts that start the same program, which is killed in the middle of its work.

The work is a program `job`. It writes into a diary, which all hosts share, and stays in the middle
until the test lets it go on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.contracts.sources import ROOT

HANGS = 90.0
TTL = 3.0
"""Seconds until Redis notices a crash, where the program leaves that to the engine. It must not run
out for one that lives, on a machine that is busy with other tests."""
JOB = """#!/bin/sh
echo "begun $HOST" >> "{folder}/diary"
while [ ! -e "{folder}/go-on" ]; do sleep 0.05; done
echo "ended $HOST" >> "{folder}/diary"
"""
SHORT_TTL = f"""
from locknut.backends.redis import recipe
recipe.DEFAULT_TTL = {TTL}
"""
OWN_CLOCK = """
import pathlib
from locknut.faces import slots
slots.wall_clock = lambda: float(pathlib.Path({clock!r}).read_text())
"""
"""What Python does when it starts: the ttl is 30 seconds otherwise, and the slots are today's."""


class Host:
    """One start of the program, which may be several processes."""

    def __init__(self, number: int, process: subprocess.Popen[str], diary: Path) -> None:
        self.number, self._process, self._diary = number, process, diary

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @property
    def is_inside(self) -> bool:
        return f"begun {self.number}" in self._diary.read_text().splitlines()

    def kill(self) -> None:
        """All of it at once, in the middle."""
        with self._diary.open("a") as diary:
            diary.write(f"killed {self.number}\n")
        self.end()

    def end(self) -> str:
        """Return what it has said."""
        if not self.is_over:
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.communicate(timeout=HANGS)[0]

    def ends_well(self) -> None:
        said, _ = self._process.communicate(timeout=HANGS)
        assert self._process.returncode == 0, said


class Hosts:
    """All of them, in one folder and with their locks at one place; none outlives the `with`."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.command: list[str] = []
        self._started: list[Host] = []
        self._diary = folder / "diary"
        self._diary.touch()
        self.program("job", JOB.format(folder=folder))
        self.program("locknut", f'#!/bin/sh\nexec "{sys.executable}" -m locknut "$@"\n')
        if url.startswith("redis:"):
            self._at_start(SHORT_TTL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for host in self._started:
            host.end()

    def program(self, name: str, text: str) -> None:
        """A command that all hosts have."""
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def set_clock(self, shows: float) -> None:
        """The one on the wall, of all hosts; before the first of them starts, and later."""
        clock = self.folder / "clock"
        if not clock.exists():
            self._at_start(OWN_CLOCK.format(clock=str(clock)))
        clock.write_text(str(shows))

    def _at_start(self, code: str) -> None:
        with (self.folder / "sitecustomize.py").open("a") as file:
            file.write(code)

    def start(self) -> Host:
        number = len(self._started) + 1
        process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "PYTHONPATH": f"{self.folder}:{ROOT}/src",
                "LOCKNUT_URL": self.url,
                "HOST": str(number),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._started.append(Host(number, process, self._diary))
        return self._started[-1]

    def one_inside(self, waiting: Host | None = None) -> Host:
        """Wait until one is in the middle: whoever waits, or the first that comes not in vain."""
        host = waiting or self.start()
        give_up, said = time.monotonic() + HANGS, ""
        while not host.is_inside:
            assert time.monotonic() < give_up, f"nobody is in the middle of the work: {said}"
            if host.is_over and not host.is_inside:
                said = host.end()
                host = self.start()
            time.sleep(0.02)
        return host

    def go_on(self) -> None:
        (self.folder / "go-on").touch()

    @property
    def diary(self) -> list[str]:
        """What became of those that began, without their numbers."""
        return [line.split()[0] for line in self._diary.read_text().splitlines()]
