"""The production backend of the blocking colour, on simulated connections."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from hiredis import Reader, ReplyError

from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.inboxes import Inbox, InboxDelivery
from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.server_port import understood
from locknut.backends.redis.sync import BlockingServer
from locknut.backends.redis.waiting_claims import WaitingClaim
from locknut.core.ports import Signal
from locknut.drivers.redis import wire
from locknut.drivers.redis.confirmations import Confirmation
from locknut.drivers.redis.endpoints import Endpoint, overtaken
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable
from tests.simulation.coroutines import Future
from tests.simulation.process import Process, SimRuntime
from tests.simulation.redis.client_end import SETTINGS, LineEnd, connected, place_for
from tests.simulation.redis.node import RedisNode


class Connection:
    """A socket that is waited for in the simulator; used by one caller at a time."""

    def __init__(self, end: LineEnd) -> None:
        self.era: object = None
        self.epoch = 0
        self.peer: Any = end.peer
        self.welcome = wire.Welcome()
        self.end = end
        self._reader: Reader = wire.reader()
        self._answers: list[Any] = []
        self._wanted = 0
        self._late = False
        self._waits: Future[None] = Future()
        end.received = self._received
        end.over = self._over

    @property
    def closed(self) -> bool:
        return self.end.closed

    async def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        self.post(packed)
        return await self.answers(len(packed))

    def post(self, packed: Sequence[bytes]) -> None:
        self._answers = []
        if not self.closed:
            self.end.wire.request(b"".join(packed))

    async def answer_within(self, which: int, seconds: float) -> Any:
        """The so many-th, or NOTHING if it takes longer."""
        self._late = False
        try:
            return (await self.answers(which, min(seconds, SETTINGS.limit)))[which - 1]
        except BackendUnavailable:
            if self._late and seconds < SETTINGS.limit:
                return wire.NOTHING
            raise

    async def answers(self, wanted: int, seconds: float = SETTINGS.limit) -> list[Any]:
        """As soon as there are so many, of those that came since something was sent last."""
        process = self.end.process
        self._wanted, self._waits = wanted, Future()
        if len(self._answers) < wanted:
            if self.closed:
                raise wire.unreachable(SETTINGS, ConnectionResetError("closed"))
            call_off = process.at(process.now() + seconds, self._too_late)
            try:
                await self._waits
            finally:
                call_off()
        return self._answers

    def interrupt(self) -> None:
        self.end.close()

    close = interrupt

    def _received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (answer := self._reader.gets()) is not wire.NOTHING:
            self._answers.append(answer)
        if len(self._answers) >= self._wanted:
            self._waits.resolve(None)

    def _over(self) -> None:
        self._waits.fail(wire.unreachable(SETTINGS, ConnectionResetError("cut")))

    def _too_late(self) -> None:
        self._late = True
        self._waits.fail(wire.unreachable(SETTINGS, TimeoutError()))


class Dial:
    """How this colour opens a connection."""

    def __init__(self, process: Process, node: RedisNode) -> None:
        self._process = process
        self._node = node
        self.clock = SimRuntime(process)

    async def open(self, settings: Settings, *, curious: bool = False) -> Connection:
        connection = Connection(await connected(self._process, self._node))
        greeting = wire.greeting(settings, b"2", curious=curious)
        try:
            replies = await connection.send_many(greeting)
        except BaseException:
            connection.close()
            raise
        connection.welcome = wire.welcome(replies, curious=curious)
        return connection

    async def ask(self, peer: Connection, packed: bytes) -> Any:
        (reply,) = await peer.send_many([packed])
        return reply


class Pool:
    """The idle connections of one backend, and their eras, as `pools.Pool` keeps them."""

    def __init__(self, process: Process, node: RedisNode) -> None:
        self.dial = Dial(process, node)
        self.settings = SETTINGS
        self._place: Endpoint = place_for(process, node)
        self._latest = self._place.latest
        self._idle: list[Connection] = []
        self.era = object()
        self._latest.follow(self)

    def longest_slice(self, wanted: float) -> float:
        return min(wanted, SETTINGS.limit / 2)

    async def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        connection = await self._take()
        try:
            answers = await connection.send_many(packed)
            self._ensure_current(connection)
        except BaseException:
            self._drop(connection)
            raise
        self._give_back(connection)
        return answers

    async def send_within(
        self, packed: bytes, within: float, lent: Callable[[Connection | None], None]
    ) -> tuple[Any, object]:
        """As `Inbox` does it."""
        connection = await self._take()
        lent(connection)
        try:
            connection.post([packed])
            reply = await connection.answer_within(1, within)
            self._ensure_current(connection)
        except BaseException:
            self._drop(connection)
            raise
        finally:
            lent(None)
        era = connection.era
        if reply is wire.NOTHING:
            connection.close()
        else:
            self._give_back(connection)
        return reply, era

    async def send_two(self, packed: bytes, most: float, within: float) -> tuple[Any, Any]:
        """As `InboxDelivery` does it."""
        connection = await self._take()
        popped = wire.NOTHING
        try:
            answer, *_ = await connection.send_many([packed])
            if type(answer) is int:
                popped = await connection.answer_within(2, math.inf)
            elif type(answer) is list:
                told = answer[0] / 1000
                popped = await connection.answer_within(2, told if told < most else within)
            self._ensure_current(connection)
        except BaseException:
            self._drop(connection)
            raise
        if popped is wire.NOTHING:
            connection.close()
        else:
            self._give_back(connection)
        return answer, popped

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self.close()

    def _give_back(self, connection: Connection) -> None:
        if connection.era is self.era:
            self._idle.append(connection)
        else:
            connection.close()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and connection.era is self.era:
                return connection
            connection.close()
        connection = await self._place.reach(self.dial)
        self._latest.reached(connection.peer)
        connection.era, connection.epoch = self.era, self._latest.epoch
        return connection

    def _ensure_current(self, connection: Connection) -> None:
        if connection.epoch != self._latest.epoch:
            raise overtaken(SETTINGS)

    def era_of(self, _: bytes) -> object:
        return self.era

    def refused(self, reply: ReplyError) -> BackendError:
        return wire.failed(reply)

    def listen(self, moved: Callable[[], None]) -> None:
        self._latest.listen(moved)

    def hung_up(self) -> bool:
        cut = any(each.closed for each in self._idle)
        if cut:
            self.close()
        return cut

    def overtaken(self) -> None:
        self.close()

    def close(self) -> None:
        self.era = object()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class SimServer(BlockingServer):
    """One server, on simulated connections."""

    def __init__(self, pool: Any, confirmation: Confirmation | None):
        super().__init__(pool)
        self.confirmation = confirmation

    async def ask(self, script: Script, packed: bytes) -> Any:
        pool: Any = self._pool
        (reply,) = await pool.send_many([packed])
        return reply if type(reply) is int else await understood(self, script, packed, reply)

    async def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        pool: Any = self._pool
        return list(await pool.send_many(packed))


class SimDelivery(InboxDelivery):
    """Inboxes that are read on simulated connections."""

    async def _send_two(self, packed: bytes, most: float, within: float) -> tuple[Any, Any]:
        pool: Any = self._pool
        return cast("tuple[Any, Any]", await pool.send_two(packed, most, within))

    def _inbox(self, waiting: WaitingClaim, plain: Callable[[], Signal]) -> SimInbox:
        return SimInbox(self._pool, self._recipe, waiting, plain, self._now)


class SimBlocking(RedisBackend):
    """The blocking colour."""

    confirmation: Confirmation | None = None

    def __init__(self, process: Process, node: RedisNode) -> None:
        pool: Any = Pool(process, node)
        self._connections: Pool = pool
        clock, recipe = SimRuntime(process), Recipe()
        confirmed = self.confirmation is not None
        delivery = SimDelivery(pool, recipe, clock, confirmed=confirmed)
        super().__init__(SimServer(pool, self.confirmation), delivery, recipe, clock)


class SimConfirmed(SimBlocking):
    """The same, with replicas that have to confirm."""

    confirmation = Confirmation(replace(SETTINGS, replicas=1, replicas_limit=0.2))


class SimInbox(Inbox):
    """Sleeps in BLPOP on a simulated connection."""

    async def _send(self, packed: bytes, within: float) -> tuple[Any, object]:
        pool: Any = self._pool
        return cast("tuple[Any, object]", await pool.send_within(packed, within, self._lent))

    def _lent(self, connection: Any) -> None:
        self._sleeping = connection
