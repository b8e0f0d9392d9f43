"""One private server: a folder and a port of its own on the loopback, its life and its end."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tests.servers.ports import HOST, Ports
from tests.servers.processes import Process


class Started(ABC):
    """What is there for the length of a `with`; a start that fails leaves nothing."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


class Server(Started):
    """Use it in a `with`, or call `start` and `close`. The address stays the same over restarts."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="locknut-"))
        self.host = HOST
        self.port = 0
        self._ports = Ports()
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self) -> Self:
        """Start and wait until it answers; one that stands still goes on."""
        if not self.port:
            self._choose_ports()
        self.launch()
        self.wait()
        return self

    def launch(self) -> None:
        """Start without waiting."""
        if self.running:
            self.cont()
        else:
            self._process = self._spawn()

    def wait(self) -> None:
        self.process.wait_until(self._answers)

    def kill(self) -> None:
        """SIGKILL; `start` brings it back."""
        if self._process:
            self._process.kill()

    def stop(self) -> None:
        """SIGSTOP: connections stay open, new ones are even accepted, and nobody answers."""
        self.process.stop()

    def cont(self) -> None:
        """SIGCONT: what was sent in the meantime is done now."""
        self.process.cont()

    def close(self) -> None:
        """Ended, its folder removed, and its address anybody's."""
        self.kill()
        self._ports.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _choose_ports(self) -> None:
        (self.port,) = self._ports.reserve(1)

    def _spawn(self) -> Process:
        return Process(self._command(), self.folder / "log")

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self) -> object:
        """Whether it serves; an OSError, as of a refused connection, is a no."""


def start_together(*servers: Started) -> None:
    """All at once: it takes as long as the slowest."""
    with ThreadPoolExecutor(len(servers)) as starting:
        for done in [starting.submit(server.start) for server in servers]:
            done.result()
