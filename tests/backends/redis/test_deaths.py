"""Clients that are killed or stopped, holding or waiting: who comes next, and what they find."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import locknut
from tests.backends.redis.conftest import eventually
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
SCRIPT = Path(__file__).with_name("client.py")


class Client:
    """A process with a lock, or in line for it."""

    def __init__(self, url: str, colour: str) -> None:
        command = [sys.executable, str(SCRIPT), url, colour]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.says() == "waiting"

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def fence(self) -> int:
        return int(self.says())

    def let_go(self) -> list[str]:
        """What the lease said of itself, and what came of the release."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [self.says(), self.says()]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def cont(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Cast:
    """The clients of one test, in the order in which they stand in line."""

    def __init__(self, server: RedisServer, colour: str) -> None:
        self._server = server
        self._colour = colour
        self.clients: list[Client] = []

    def enter(self) -> Client:
        """One more: it holds the lock, or stands in line."""
        client = Client(self._server.url, self._colour)
        if self.clients:
            place = len(self.clients)
            eventually(lambda: self.in_line() == place, "does not stand in line")
        self.clients.append(client)
        return client

    def in_line(self) -> int:
        found = self._server.ask("ZCARD", "t:{x}:line")
        assert isinstance(found, int)
        return found


@pytest.fixture(params=["threads", "asyncio"])
def cast(server: RedisServer, request: pytest.FixtureRequest) -> Iterator[Cast]:
    cast = Cast(server, request.param)
    yield cast
    for client in cast.clients:
        client.kill()


def test_a_killed_holder(cast: Cast) -> None:
    holder, waiter = cast.enter(), cast.enter()
    first = holder.fence()
    holder.kill()
    assert waiter.fence() > first
    assert waiter.let_go() == ["held True", "released"]


def test_a_stopped_holder_wakes_up_with_a_lost_lease(cast: Cast) -> None:
    holder, waiter = cast.enter(), cast.enter()
    first = holder.fence()
    holder.stop()
    second = waiter.fence()
    assert second > first
    holder.cont()
    assert holder.let_go() == ["lost False", "lost"]
    assert waiter.let_go() == ["held True", "released"]


@pytest.mark.slow
def test_a_killed_first_waiter(cast: Cast) -> None:
    holder, dead, alive = cast.enter(), cast.enter(), cast.enter()
    first = holder.fence()
    dead.kill()
    assert holder.let_go() == ["held True", "released"]
    assert alive.fence() > first
    assert alive.let_go() == ["held True", "released"]


@pytest.mark.slow
def test_a_stopped_first_waiter_does_not_believe_its_old_grant(
    cast: Cast, server: RedisServer
) -> None:
    """S1, with real processes: the grant lies in its socket while the next one is granted."""
    holder, asleep, awake = cast.enter(), cast.enter(), cast.enter()
    first = holder.fence()
    asleep.stop()
    assert holder.let_go() == ["held True", "released"]
    second = awake.fence()
    asleep.cont()  # it finds the message, and asks again
    eventually(lambda: cast.in_line() == 1, "does not stand in line again")
    with locknut.connect(server.url, namespace="t") as locks:
        assert [each.fence for each in locks.info("x").holders] == [second]
    assert awake.let_go() == ["held True", "released"]
    third = asleep.fence()
    assert first < second < third
    assert asleep.let_go() == ["held True", "released"]


@pytest.mark.slow
def test_all_but_the_last_are_killed(cast: Cast) -> None:
    holder, *dead, last = (cast.enter() for _ in range(5))
    first = holder.fence()
    for client in (holder, *dead):
        client.kill()
    assert last.fence() > first
    assert last.let_go() == ["held True", "released"]
