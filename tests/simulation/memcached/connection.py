"""The client's side: commands as messages on a connection that knows its instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from locknut.backends.memcached.handles import Instance
from locknut.drivers.memcached.replies import Reply
from locknut.drivers.memcached.server_identity import Greeted, OtherInstance
from locknut.errors import BackendUnavailable
from tests.simulation.coroutines import Died, Future

if TYPE_CHECKING:
    from tests.simulation.memcached.server import Memcached
    from tests.simulation.process import Process

REPLY_WITHIN = 0.5
"""How long a command waits for its answer."""


class Question:
    """Commands that were sent together, and wait for their answers; none at all is a greeting."""

    def __init__(
        self,
        connection: Connection,
        packed: Sequence[bytes],
        generation: int,
        *,
        connects: bool = False,
    ) -> None:
        self.packed = packed
        self.connects = connects
        self.generation = generation
        """Of the instance that the connection leads to."""
        self.actors, self.renews = connection.actors, connection.renews
        self.breaks = connection.breaks
        self.answer: Future[Any] = Future()
        self._process = connection.process
        self._server = connection.server

    async def ask(self) -> Any:
        process, server = self._process, self._server
        if process.dead:
            raise Died
        late = process.at(process.now() + REPLY_WITHIN, self.cut)
        server.asked[self] = None
        server.network.request(lambda: server.arrive(self))
        try:
            return await self.answer
        finally:
            late()
            server.asked.pop(self, None)

    def answered(self, what: Any) -> None:
        tell = lambda: self._process.soon(lambda: self.answer.resolve(what))  # noqa: E731
        self._server.network.reply(tell)

    def cut(self) -> None:
        """No answer will come; what was sent may be done all the same."""
        unknown = BackendUnavailable("no answer", backend="memcached")
        self._process.soon(lambda: self.answer.fail(unknown))


class Link:
    """What is known of the server at the other end; shared by all who ask on this connection."""

    greeted: Greeted | None = None
    generation = -1


class Connection:
    """`Server` of the backend, for one verb: it knows whose it is."""

    evicts = True

    def __init__(
        self,
        process: Process,
        server: Memcached,
        link: Link | None = None,
        actors: tuple[str, ...] = (),
        *,
        renews: bool = False,
        breaks: bool = False,
    ) -> None:
        self.process = process
        self.server = server
        self.actors = actors
        self.renews = renews
        self.breaks = breaks
        self._link = link or Link()
        self.clocks = server.clocks_of(process)

    def of(self, *actors: str, renews: bool = False, breaks: bool = False) -> Connection:
        more = {"renews": renews, "breaks": breaks}
        return type(self)(self.process, self.server, self._link, actors, **more)

    async def ask(
        self, packed: Sequence[bytes], instance: Instance | None = None
    ) -> tuple[list[Reply], Greeted]:
        greeted = await self._greet()
        if instance is not None and greeted.instance != instance:
            raise OtherInstance
        try:
            return await Question(self, packed, self._link.generation).ask(), greeted
        except BackendUnavailable:
            self._link.greeted = None  # the connection is left
            raise

    async def change(self, packed: bytes, instance: Instance) -> int:
        try:
            (reply,), _ = await self.ask([packed], instance)
        except OtherInstance:
            return 0
        return reply.cas if reply.code == b"HD" else 0

    async def ask_list(self, packed: bytes) -> list[Reply]:
        raise AssertionError(f"nobody lists in the simulator: {packed!r}")

    async def _greet(self) -> Greeted:
        link, server = self._link, self.server
        if link.greeted is None or link.generation != server.generation:
            generation = server.generation
            link.greeted = await self._told(generation, connects=True)
            link.generation = generation
        return link.greeted

    async def look_at_clock(self) -> None:
        await self._greet()
        try:
            await self._told(self._link.generation)
        except BackendUnavailable:
            self._link.greeted = None  # as above
            raise

    async def _told(self, generation: int, *, connects: bool = False) -> Greeted:
        asked = self.process.now()
        start, pid, age = await Question(self, (), generation, connects=connects).ask()
        told = Greeted(start, pid, age, self.process.now(), start + age, asked)
        self.clocks.heard(told)
        return told

    async def close(self) -> None:
        """Nothing to close: messages under way stay under way."""

    def forked(self) -> None:
        """Simulated processes do not fork."""

    def dropped(self) -> None:
        """Nothing to drop."""
