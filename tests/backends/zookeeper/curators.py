"""Curator's own locks in a Java program, for the tests that stand in one line with them.

`Contender.java` does what it is told on its input; it needs what `make servers` fetches.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from unittest import SkipTest

import pytest

import locknut
from tests.backends.zookeeper.conftest import PATIENCE, eventually, root
from tests.servers.processes import program
from tests.servers.zookeeper import ZooKeeperServer

PROGRAM = Path(__file__).with_name("Contender.java")
LONG = int(PATIENCE * 1000)
"""How long a waiter of theirs waits: longer than any test."""
STARTING = 120.0
"""Seconds in which Java has started and compiled the program, also on a busy machine."""
USUAL, SHORT = 10_000, 3_000
"""Sessions, in milliseconds: a program that is to die has a short one."""


class Curator:
    """One Java program with locks of Curator's: one thread, so one thing at a time."""

    def __init__(self, address: str, session: int = USUAL) -> None:
        try:
            command = [program("curator"), str(PROGRAM), address, str(session)]
        except SkipTest as missing:
            pytest.skip(f"needs Curator: {missing}")
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains at length of servers that tests end
            text=True,
        )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        assert self.said(within=STARTING) == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._popen.communicate()

    def kill(self) -> None:
        self._popen.kill()

    def tell(self, *words: object) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(" ".join(map(str, words)) + "\n")
        self._popen.stdin.flush()

    def said(self, within: float = PATIENCE) -> str:
        return self._said.get(timeout=within)

    def acquire(self, kind: str, path: str, milliseconds: int = 100) -> str:
        self.tell("acquire", kind, path, milliseconds)
        return self.said()

    def release(self, kind: str, path: str) -> None:
        self.tell("release", kind, path)
        assert self.said() == "released"

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._said.put(line.strip())


@pytest.fixture(scope="module")
def curators(zookeeper_server: ZooKeeperServer) -> Iterator[list[Curator]]:
    """Two programs: Java takes seconds to start, so for all the tests."""
    with ExitStack() as stack:
        started = [Curator(zookeeper_server.address) for _ in range(2)]
        yield [stack.enter_context(each) for each in started]


@pytest.fixture
def curator(curators: list[Curator]) -> Curator:
    return curators[0]


class Place(NamedTuple):
    """Our locks, and the node of the lock "x" as Curator is told of it."""

    locks: locknut.Locks
    path: str
    url: str


@pytest.fixture
def place(zookeeper_server: ZooKeeperServer) -> Iterator[Place]:
    own = root()
    url = f"{zookeeper_server.url}/{own}"
    with locknut.connect(url) as locks:
        yield Place(locks, f"/{own}/locknut/x", url)


def in_line(locks: locknut.Locks, count: int) -> None:
    eventually(lambda: len(locks.info("x").waiters) == count, f"{count} in line")
