"""The production backend of the asyncio colour, and its stream, on simulated connections."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

from locknut.backends.redis.aio import LoopServer, PushDelivery
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.recipe import BROKEN, Recipe
from locknut.drivers.redis.settings import Settings
from locknut.drivers.redis.streams import Stream
from tests.simulation.coroutines import Future
from tests.simulation.process import Process, SimRuntime
from tests.simulation.redis.client_end import LineEnd, connected, place_for
from tests.simulation.redis.node import RedisNode


class LoopFuture:
    """A future as the production stream uses one, to be awaited by a task of the simulator."""

    def __init__(self, _: Any = None) -> None:
        self._inner: Future[Any] = Future()

    def done(self) -> bool:
        return self._inner.done

    def set_result(self, value: Any) -> None:
        self._inner.resolve(value)

    def set_exception(self, error: BaseException) -> None:
        self._inner.fail(error)

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        self._inner.on_done(lambda: call(self))

    def __await__(self) -> Generator[Any, None, Any]:
        return self._inner.__await__()


class Loop:
    """As much of an event loop as the production stream uses."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def create_future(self) -> LoopFuture:
        return LoopFuture()

    def call_soon(self, call: Callable[[], None]) -> None:
        self._process.soon(call)

    call_soon_threadsafe = call_soon

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self._process.at(self._process.now() + seconds, call)


class Transport:
    """What the production stream writes to."""

    def __init__(self, end: LineEnd, stream: Stream) -> None:
        self._end = end
        end.received = partial(_received, stream)
        end.over = lambda: stream.connection_lost(None)

    def write(self, data: bytes) -> None:
        self._end.wire.request(data)

    def abort(self) -> None:
        self._end.process.soon(self._end.close)

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, what: str) -> int | None:
        """There is no socket."""
        return self._end.peer if what == "peername" else None

    def is_closing(self) -> bool:
        return self._end.closed


def _received(stream: Stream, data: bytes) -> None:
    """As a loop does it: into the stream's own buffer, as much at a time as fits."""
    while data:
        buffer = stream.get_buffer(-1)
        size = min(len(data), len(buffer))
        buffer[:size], data = data[:size], data[size:]
        stream.buffer_updated(size)


class SimStream(Stream):
    """The production stream, whose answers are awaited in the simulator."""

    _new_reply: Any = LoopFuture


class Dial:
    """How this colour opens a stream."""

    def __init__(
        self, listener: Any, process: Process, node: RedisNode, loop: Callable[[], Loop]
    ) -> None:
        self._listener = listener
        """Is told what is pushed, and when the stream is lost."""
        self._process = process
        self._node = node
        self._loop = loop
        self.clock = SimRuntime(process)

    async def open(self, settings: Settings, *, curious: bool = False) -> Stream:
        end = await connected(self._process, self._node)
        loop: Any = self._loop()
        stream = SimStream(
            settings, loop, self._listener.pushed, self._listener.lost, self.clock.now
        )
        transport: Any = Transport(end, stream)
        stream.connection_made(transport)
        await stream.greet(curious=curious)
        return stream

    async def ask(self, peer: Stream, packed: bytes) -> Any:
        return await peer.send(packed)


class Joint:
    """Work that whoever needs it first begins, as `SharedTask`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._callers: list[Future[Stream]] = []

    async def done(self, work: Callable[[], Coroutine[Any, Any, Stream]]) -> Stream:
        caller: Future[Stream] = Future()
        self._callers.append(caller)
        if len(self._callers) == 1:
            self._process.spawn(self._run(work), "connecting")
        return await caller

    async def _run(self, work: Callable[[], Coroutine[Any, Any, Stream]]) -> None:
        stream, why = None, None
        try:
            stream = await work()
        except Exception as error:  # noqa: BLE001  # the callers are told
            why = error
        callers, self._callers = self._callers, []
        for caller in callers:
            if stream is not None:
                caller.resolve(stream)
            elif why is not None:
                caller.fail(why)


class SimAsyncio(RedisBackend):
    """The asyncio colour."""

    def __init__(self, process: Process, node: RedisNode) -> None:
        clock, endpoint = SimRuntime(process), place_for(process, node)
        delivery = PushDelivery(clock)
        endpoint.latest.listen(delivery.moved)
        dial: Any = Dial(delivery, process, node, lambda: Loop(process))
        server = LoopServer(endpoint, dial, (delivery.channel, BROKEN))
        joint: Any = Joint(process)
        server.link._connecting = joint
        super().__init__(server, delivery, Recipe(), clock)
