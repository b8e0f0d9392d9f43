"""A proxy before the peer port of an etcd member, by which it is cut off from some of its fellows.

All members know each other by one address, so a proxy there cannot tell by the port who comes. But
each request between members says so in its head (`X-Server-From`).
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from locknut.testing.loop_thread import LoopThread
from tests.servers.ports import HOST

_SENDER = re.compile(rb"X-Server-From: ([0-9a-f]+)", re.IGNORECASE)


class PeerProxy:
    """Listens from its creation until `close`. What is blocked stays open and silent."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._everybody = False
        self._blocked: set[int] = set()
        self._open: dict[asyncio.Task[None], int] = {}
        """The connections, and who came; 0 while that is not known."""
        self._loop = LoopThread("peer-proxy")
        self._loop.run(self._listen())

    def block_all(self) -> None:
        """Nobody reaches the member, and it answers nobody."""

        def obey() -> None:
            self._everybody = True

        self._loop.call(obey)

    def block(self, sender: int) -> None:
        """That member does not reach this one, and gets no answer."""
        self._loop.call(lambda: self._blocked.add(sender))

    def heal(self) -> None:
        """What lost bytes is cut; new connections pass."""

        def obey() -> None:
            for task, sender in self._open.items():
                if self._silent(sender):
                    task.cancel()
            self._everybody = False
            self._blocked.clear()

        self._loop.call(obey)

    def close(self) -> None:
        self._loop.run(self._end())
        self._loop.close()

    # Inside the loop.

    def _silent(self, sender: int) -> bool:
        return self._everybody or sender in self._blocked

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._listener.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._open[task] = 0
        task.add_done_callback(self._open.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one end is done, or it is cut."""
        own = asyncio.current_task()
        assert own is not None
        writers = [writer]
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                head = await reader.readuntil(b"\r\n\r\n")
                found = _SENDER.search(head)
                self._open[own] = sender = int(found[1], 16) if found else 0
                server, onward = await asyncio.open_connection(HOST, self._target)
                writers.append(onward)
                if not self._silent(sender):
                    onward.write(head)
                ways = [
                    asyncio.create_task(self._pass_on(reader, onward, sender)),
                    asyncio.create_task(self._pass_on(server, writer, sender)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
        finally:
            for each in writers:
                each.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: int
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if not self._silent(sender):
                    writer.write(data)
                    await writer.drain()
