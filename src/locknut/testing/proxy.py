"""A TCP proxy that injects network faults when a test says so, reproducibly.

    with FaultProxy(("127.0.0.1", 6379)) as proxy:
        locks = locknut.connect(f"redis://127.0.0.1:{proxy.port}")
        proxy.replies.swallow()                  # the server obeys, and its reply is lost
        ...
        proxy.requests.wait_for(b"EVALSHA")      # sent by now
        proxy.cut()

`requests` go to the server, `replies` come back; `Switch` lists the faults of each. The proxy runs
in a thread of its own and serves clients of both colours. Any thread may call its methods.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Self

from locknut.testing.flow import Flow, Rule, Switch
from locknut.testing.loop_thread import PATIENCE, LoopThread

BACKLOG = 100
REMEMBERED = 64
"""So many ended connections can still be searched for what they carried."""


class Direction(Switch):
    """One direction of one connection, or of all connections, including later ones."""

    def __init__(self, proxy: FaultProxy, flows: Callable[[], list[Flow]], name: str) -> None:
        self.rule = Rule()
        self._proxy = proxy
        self._flows = flows
        self._name = name

    def apply(self, rule: Rule) -> None:
        def obey() -> None:
            self.rule = rule
            for flow in self._flows():
                flow.obey(rule)

        self._proxy._loop.call(obey)

    def seen(self, pattern: bytes) -> int:
        """How often this has reached the proxy, passed on or not, since the last `forget`."""
        return self._proxy._loop.call(lambda: self._count(pattern))

    def wait_for(self, pattern: bytes, *, count: int = 1, timeout: float = PATIENCE) -> None:
        """Wait until it has been seen `count` times. On an event loop, call this in a thread."""
        what = f"{pattern!r} {count} time(s) among the {self._name}"
        self._proxy._loop.wait(lambda: self._count(pattern) >= count, what, timeout)

    def forget(self) -> None:
        """From now on, `seen` and `wait_for` search only what arrives later."""

        def clear() -> None:
            for flow in self._flows():
                flow.seen.clear()

        self._proxy._loop.call(clear)

    def _count(self, pattern: bytes) -> int:
        return sum(flow.seen.count(pattern) for flow in self._flows())


class Connection:
    """One client's connection, which can be treated apart from the others."""

    def __init__(self, proxy: FaultProxy, client: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._writers: list[asyncio.StreamWriter] = []
        """To the client, and to the server; none in the first moments."""
        self._reset = False
        self._requests = Flow(proxy.requests.rule, self._finish)
        self._replies = Flow(proxy.replies.rule, self._finish)
        self.requests = Direction(proxy, lambda: [self._requests], "requests")
        self.replies = Direction(proxy, lambda: [self._replies], "replies")

    @property
    def open(self) -> bool:
        return not (self._requests.ended.is_set() and self._replies.ended.is_set())

    def cut(self, *, reset: bool = False) -> None:
        """Close both ends. With `reset`, the client's next read fails instead of ending."""
        self._proxy._loop.call(lambda: self._abort(reset=reset))

    def _abort(self, *, reset: bool = False) -> None:
        """Now, also where one end has stopped reading."""
        self._reset = reset
        for writer in self._writers:
            if reset and not writer.is_closing():
                bare: socket.socket = writer.get_extra_info("socket")
                bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self._finish()

    def _finish(self) -> None:
        """What was handed on still gets there."""
        for writer in self._writers:
            writer.close()
        for flow in (self._requests, self._replies):
            flow.end()

    async def _serve(self) -> None:
        """Until both ends are done, or it is cut."""
        try:
            client, writer = await asyncio.open_connection(sock=self._client)
        except OSError:  # it has hung up again
            return
        self._writers.append(writer)
        if not self.open:  # cut before we had a writer to cut
            self._abort(reset=self._reset)
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(client, self._requests))
            try:
                await self._reach(group)
            finally:
                self._finish()

    async def _reach(self, group: asyncio.TaskGroup) -> None:
        try:
            server, writer = await self._proxy._reach_server()
        except OSError:
            return
        self._writers.append(writer)
        if not self.open:  # cut while it was on its way
            return
        group.create_task(self._listen(server, self._replies))
        self._requests.lead_to(writer)
        self._replies.lead_to(self._writers[0])
        await self._requests.ended.wait()
        await self._replies.ended.wait()

    async def _listen(self, sender: asyncio.StreamReader, flow: Flow) -> None:
        data = b"?"
        while data:
            try:
                data = await sender.read(65536)
            except OSError:  # reset: to the other side it looks like an end
                data = b""
            flow.arrived(data)
            self._proxy._loop.tell()


class FaultProxy:
    """Listens on a free local port and passes everything on to `target`: (host, port), or a path.

    The proxy listens from its creation until `close()` or the end of its `with`.
    """

    def __init__(self, target: tuple[str, int] | str) -> None:
        self.target = target
        self.host = "127.0.0.1"
        self.port = 0
        self.accepted = 0
        """How many connections clients have made."""
        self.requests = Direction(
            self, lambda: [one._requests for one in self._known()], "requests"
        )
        self.replies = Direction(self, lambda: [one._replies for one in self._known()], "replies")
        self._open: dict[Connection, asyncio.Task[None]] = {}
        self._ended: deque[Connection] = deque(maxlen=REMEMBERED)
        self._listener: socket.socket | None = None
        self._loop = LoopThread("fault-proxy")
        self._loop.run(self._listen())

    def close(self) -> None:
        """Cut every connection and stop listening. A second call does nothing."""
        if not self._loop.closed:
            self._loop.run(self._end())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connections(self) -> list[Connection]:
        """The connections that are open now, oldest first."""

        def accepted() -> list[Connection]:
            self._accept()
            return list(self._open)

        return self._loop.call(accepted)

    def cut(self, *, reset: bool = False) -> None:
        """Cut every connection that is open now. New ones are accepted."""

        def abort() -> None:
            self._accept()
            for connection in self._open:
                connection._abort(reset=reset)

        self._loop.call(abort)

    def black_hole(self) -> None:
        """Lose everything in both directions, without closing a connection."""
        self.requests.swallow()
        self.replies.swallow()

    def strand(self) -> None:
        """Make the open connections silent for both ends (half-open). New ones work."""
        for connection in self.connections:
            connection.requests.swallow()
            connection.replies.swallow()

    def refuse(self) -> None:
        """Stop listening: new connections are refused, open ones stay."""
        self._loop.call(self._stop_listening)

    def heal(self) -> None:
        """End all faults. Connections that lost bytes are cut."""
        self.requests.forward()
        self.replies.forward()
        self._loop.run(self._listen())

    def wait_for_connections(self, count: int, timeout: float = PATIENCE) -> None:
        """Wait until there have been that many, as after a client's reconnect."""
        self._loop.wait(lambda: self.accepted >= count, f"{count} connections", timeout)

    # Inside the loop.

    async def _listen(self) -> None:
        """By a socket of our own: a server of asyncio keeps what it has just accepted to itself for
        some turns of the loop, and nobody could cut it then.
        """
        if self._listener is None:
            self._listener = socket.create_server((self.host, self.port), backlog=BACKLOG)
            self._listener.setblocking(False)
            self.port = self._listener.getsockname()[1]
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def _end(self) -> None:
        self._stop_listening()
        tasks = list(self._open.values())
        for connection, task in self._open.items():
            connection._abort()
            task.cancel()  # it may be on its way to a server that does not answer
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop_listening(self) -> None:
        self._accept()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        """Every client that has connected by now."""
        while self._listener is not None:
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                break
            except ConnectionAbortedError:  # that one has hung up again
                continue
            connection = Connection(self, client)
            task = asyncio.create_task(connection._serve())
            self._open[connection] = task
            task.add_done_callback(partial(self._forget, connection))
            self.accepted += 1
        self._loop.tell()

    def _forget(self, connection: Connection, _: object) -> None:
        if not connection._writers:  # its task was cancelled before it had begun
            connection._client.close()
        del self._open[connection]
        self._ended.append(connection)

    def _known(self) -> list[Connection]:
        return [*self._ended, *self._open]

    async def _reach_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection(*self.target)
