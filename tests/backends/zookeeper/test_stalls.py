"""A server that stands still for longer than a command may take, at each verb of the port in turn:
asked again, it answers what it would have answered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from locknut.core.ports import Engine, Runtime
from locknut.testing.conformance.colours import COLOURS
from locknut.testing.conformance.port_rules import PortRules
from locknut.urls import open_engine
from tests.backends.zookeeper.conftest import root
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]
STALL = 1.8
"""Seconds, of which a command waits for 1.5."""


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as made:
        yield made


class Stall:
    """The server stops before the first call of a verb, for so long."""

    def __init__(self, server: ZooKeeperServer, verb: str):
        self._server, self._verb = server, verb
        self.calls = 0

    def at(self, name: str, found: Any) -> Any:
        return partial(self._called, found) if name == self._verb else found

    async def _called(self, verb: Any, *args: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            self._server.stop()
            threading.Timer(STALL, self._server.cont).start()
        return await verb(*args, **named)


class Stalling:
    """An engine, or one of its backends, whose server does that."""

    def __init__(self, real: Any, stall: Stall):
        self._real, self._stall = real, stall

    def blocking(self, runtime: Runtime) -> Any:
        return Stalling(self._real.blocking(runtime), self._stall)

    def asyncio(self, runtime: Runtime) -> Any:
        return Stalling(self._real.asyncio(runtime), self._stall)

    def __getattr__(self, name: str) -> Any:
        return self._stall.at(name, getattr(self._real, name))


class Porter(PortRules):
    """The suite on such an engine; its tests are run by hand."""

    __test__ = False

    def __init__(self, stall: Stall):
        self._stall = stall

    def open_engine(self, url: str) -> Engine:
        made: Any = Stalling(open_engine(url)[0], self._stall)
        return made  # type: ignore[no-any-return]


@pytest.mark.parametrize("verb", ["attempt", "downgrade", "renew", "release"])
@pytest.mark.parametrize("colour", list(COLOURS))
def test_a_downgrade_asked_twice_is_one(server: ZooKeeperServer, colour: str, verb: str) -> None:
    stall = Stall(server, verb)
    porter: Any = Porter(stall)
    porter.test_a_downgrade_asked_twice_is_one(engine_url=f"{server.url}/{root()}", colour=colour)
    assert stall.calls > 1
