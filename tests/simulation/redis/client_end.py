"""The client's end of a simulated connection, and what takes the place of the machine below it.

Verbs, commands, waiting, anchors and the asyncio stream are the production code, by the clock of
the runtime that they are given. What is replaced is the socket: a wait for an answer is a wait of
the simulator's. So are the time of day, the loop, and the names of host and process.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from locknut.backends.redis import engine as _engine  # noqa: F401  # all modules are loaded by it
from locknut.drivers.redis import settings, wire
from locknut.drivers.redis.endpoints import FixedEndpoint, Latest
from locknut.runtimes import deadlines
from locknut.urls import parse
from tests.simulation.coroutines import Died, Future
from tests.simulation.memory.node import EPOCH
from tests.simulation.process import Process
from tests.simulation.redis.node import RedisNode
from tests.simulation.redis.wires import Wire
from tests.simulation.variant import Patch

SETTINGS = settings.read(parse("redis://sim?socket_timeout=1&socket_connect_timeout=1"))


def now() -> float:
    """The clock of whoever runs."""
    assert Process.running is not None
    return Process.running.now()


class WallClock:
    """Stands for the module `time`: every process has another time of day."""

    @staticmethod
    def time() -> float:
        return EPOCH + now()

    @staticmethod
    def time_ns() -> int:
        return int((EPOCH + now()) * 1_000_000_000)


class Asyncio:
    """Stands for the module `asyncio`: what the production stream uses of it."""

    @staticmethod
    async def gather(*works: Awaitable[Any]) -> list[Any]:
        return [await each for each in works]


class Machine:
    """Stands for `os` and `socket` where a client says who it is.

    A command that names a longer host or a larger process id may be split elsewhere on its way, so
    a seed would lead to another history on another machine.
    """

    @staticmethod
    def gethostname() -> str:
        return "vm"

    @staticmethod
    def getpid() -> int:
        """One of five digits."""
        assert Process.running is not None
        return 10_000 + sum(Process.running.name.encode())

    @staticmethod
    def urandom(size: int) -> bytes:
        assert Process.running is not None
        return Process.running.entropy.randbytes(size)


def _by_our_machine(_: object) -> Any:
    return Machine


def _by_our_loop(_: object) -> Any:
    return Asyncio


def _by_our_clock(_: object) -> Any:
    return now


def _by_our_wall(_: object) -> Any:
    return WallClock


REPLACED = {"time": _by_our_wall, "asyncio": _by_our_loop}
"""The clock that leases are judged by, and chance, come with the runtime."""


def instead(package: str, replaced: Mapping[str, Callable[[object], Any]]) -> tuple[Patch, ...]:
    """Whichever of these names a module of the package looks at, it finds ours."""
    return tuple(
        Patch(module, name, ours)
        for path, module in sorted(sys.modules.items())
        if path.startswith(package)
        for name, ours in replaced.items()
        if hasattr(module, name)
    )


CLOCKS = (
    *instead(
        "locknut.backends.redis",
        {**REPLACED, "os": _by_our_machine, "socket": _by_our_machine},
    ),
    *instead("locknut.drivers.redis", REPLACED),
    Patch(deadlines, "now", _by_our_clock),
)
"""Also the clock of deadlines, or what a seed leads to would depend on the machine's own."""


class LineEnd:
    """The client's end of one connection: tells its process, when that runs."""

    def __init__(self, process: Process, node: RedisNode) -> None:
        self.process = process
        self.received: Callable[[bytes], None] = lambda _: None
        self.over: Callable[[], None] = lambda: None
        self.closed = False
        self._unread: deque[bytes] = deque()
        port = node.connect()
        assert port is not None
        self.port = port
        self.peer = node.generation
        self.wire = port.wire = Wire(node.network, self, port)
        process.on_end(self.wire.client_left)

    def arrived(self, data: bytes) -> None:
        self._unread.append(data)
        self.process.soon(self._read)  # a stopped process reads in order, when it goes on

    def _read(self) -> None:
        data = self._unread.popleft()
        if not self.closed:
            self.received(data)

    def hung_up(self) -> None:
        self.process.soon(self.close)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.wire.client_left()
            self.process.not_on_end(self.wire.client_left)
            self.over()


class InOrder(list[Any]):
    """Stands for a set of weak references, whose order would depend on the interpreter."""

    def add(self, one: Any) -> None:
        self.append(one)


def place_for(process: Process, node: RedisNode) -> FixedEndpoint:
    """Each backend has its own; which server was reached last, all of a process know."""
    place, known = FixedEndpoint(SETTINGS), node.latest.get(process.name)
    if known is None:
        known = node.latest[process.name] = Latest()
        followers: Any = InOrder()
        known._followers = followers
    place.latest = known
    return place


async def connected(process: Process, node: RedisNode) -> LineEnd:
    """A connection, after a while; or the error that a connect would raise."""
    if process.dead:
        raise Died
    outcome: Future[LineEnd] = Future()
    network = node.network

    def answer() -> None:
        if node.up:
            outcome.resolve(LineEnd(process, node))
        else:
            outcome.fail(wire.unreachable(SETTINGS, ConnectionRefusedError("refused")))

    def too_late() -> None:
        outcome.fail(wire.unreachable(SETTINGS, TimeoutError()))

    call_off = process.at(process.now() + SETTINGS.connect_limit, too_late)
    if process.name not in node.strangers and not network.befalls("request_lost"):
        network.world.after(
            network.delay(), lambda: process.soon(lambda: None if outcome.done else answer())
        )
    try:
        return await outcome
    finally:
        call_off()
