"""The production backend of the blocking colour, on simulated connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hiredis import Reader

from holdfast.backends.redis import wire
from holdfast.backends.redis.recipe import Recipe
from holdfast.backends.redis.scripts import Script
from holdfast.backends.redis.sync import BlockingBackend, Inbox
from holdfast.backends.redis.waiting import Waiting
from holdfast.core.ports import Signal
from holdfast.testing.process import Process
from holdfast.testing.redis.lines import SETTINGS, LineEnd, connected
from holdfast.testing.redis.server import RedisNode
from holdfast.testing.stepping import Future


class Connection:
    """A socket that is waited for in the simulator; used by one caller at a time."""

    def __init__(self, end: LineEnd) -> None:
        self._end = end
        self._reader: Reader = wire.reader()
        self._answers: list[Any] = []
        self._wanted = 0
        self._waits: Future[None] = Future()
        end.received = self._received
        end.over = self._over

    @property
    def closed(self) -> bool:
        return self._end.closed

    async def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        process = self._end.process
        if self.closed:
            raise wire.unreachable(SETTINGS, ConnectionResetError("closed"))
        self._answers, self._wanted, self._waits = [], len(packed), Future()
        call_off = process.at(process.now() + SETTINGS.limit, self._too_late)
        self._end.wire.request(b"".join(packed))
        try:
            await self._waits
        finally:
            call_off()
        return self._answers

    def interrupt(self) -> None:
        self._end.close()

    def _received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (answer := self._reader.gets()) is not wire.NOTHING:
            self._answers.append(answer)
        if len(self._answers) >= self._wanted:
            self._waits.resolve(None)

    def _over(self) -> None:
        self._waits.fail(wire.unreachable(SETTINGS, ConnectionResetError("cut")))

    def _too_late(self) -> None:
        self._waits.fail(wire.unreachable(SETTINGS, TimeoutError()))


class Pool:
    """The idle connections of one backend, as `sockets.Pool` keeps them."""

    def __init__(self, process: Process, node: RedisNode) -> None:
        self._process = process
        self._node = node
        self._idle: list[Connection] = []

    def longest_slice(self, wanted: float) -> float:
        return min(wanted, SETTINGS.limit / 2)

    async def send_many(
        self,
        packed: Sequence[bytes],
        lent: Callable[[Connection | None], None] = lambda _: None,
    ) -> list[Any]:
        connection = await self._take()
        lent(connection)
        try:
            answers = await connection.send_many(packed)
        except BaseException:
            connection.interrupt()
            self.close()
            raise
        finally:
            lent(None)
        self._idle.append(connection)
        return answers

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return Connection(await connected(self._process, self._node))

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.interrupt()


class SimBlocking(BlockingBackend):
    """The blocking colour."""

    def __init__(self, process: Process, node: RedisNode) -> None:
        super().__init__(SETTINGS)
        self._pool: Any = Pool(process, node)

    async def _ask(self, script: Script, packed: bytes) -> Any:
        (reply,) = await self._pool.send_many([packed])
        return reply if type(reply) is int else await self._understood(script, packed, reply)

    async def _send_many(self, packed: Sequence[bytes]) -> list[Any]:
        answers: list[Any] = await self._pool.send_many(packed)
        return answers

    def _signal(self, waiting: Waiting, plain: Signal) -> Signal:
        return SimInbox(self._pool, self._recipe, waiting, plain)


class SimInbox(Inbox):
    """Sleeps in BLPOP on a simulated connection."""

    def __init__(self, pool: Any, recipe: Recipe, waiting: Waiting, plain: Signal) -> None:
        super().__init__(pool, recipe, waiting, plain)

    async def _send(self, packed: bytes) -> Any:
        (reply,) = await self._pool.send_many([packed], self._lent)  # type: ignore[call-arg,misc]
        return reply

    def _lent(self, connection: Any) -> None:
        self._sleeping = connection
