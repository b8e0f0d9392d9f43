"""The client's side: statements as messages, and what becomes of those without an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from locknut.backends.sql.table_port import Extension, GiveBack, Row, Seen, Swap, Take
from locknut.errors import BackendUnavailable
from tests.simulation.coroutines import Died, Future
from tests.simulation.sql.database import Statement
from tests.simulation.sql.table_store import TableStore

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.sql.database import Database

REPLY_WITHIN = 0.5
"""How long a statement waits for its answer."""
TRIES = 3
"""How often a statement is sent that the database undid."""


class Undone(Exception):
    """A deadlock, or too long a wait for a row: the statement has done nothing."""


class Question:
    """A statement that was sent, and waits for its answer."""

    def __init__(self, process: Process, database: Database, statement: Statement) -> None:
        self.statement = statement
        self.generation = database.generation
        self.answer: Future[Any] = Future()
        self._process = process
        self._database = database

    async def ask(self) -> Any:
        process, database = self._process, self._database
        if process.dead:
            raise Died
        late = process.at(process.now() + REPLY_WITHIN, self.cut)
        database.asked[self] = None
        database.network.request(lambda: database.arrive(self))
        try:
            return await self.answer
        finally:
            late()
            database.asked.pop(self, None)

    def answered(self, what: Any) -> None:
        self._tell(lambda: self.answer.resolve(what))

    def refused(self) -> None:
        self._tell(self.cut)

    def undone(self) -> None:
        if self.generation == self._database.generation:
            self._tell(lambda: self.answer.fail(Undone()))

    def _tell(self, how: Callable[[], None]) -> None:
        self._database.network.reply(lambda: self._process.soon(how))

    def cut(self) -> None:
        """No answer will come; what was sent may be done all the same."""
        unknown = BackendUnavailable("no answer", backend="sql")
        self._process.soon(lambda: self.answer.fail(unknown))


class SimTable:
    """`Table` of the port, for one verb: it knows whose it is."""

    inside = bool
    """Nothing runs in the middle of a simulated statement."""

    def __init__(
        self,
        process: Process,
        database: Database,
        actors: tuple[str, ...] = (),
        *,
        renews: bool = False,
        breaks: bool = False,
    ) -> None:
        self.process = process
        self.database = database
        self._actors = actors
        self._renews = renews
        self._breaks = breaks
        self._read_at = 0

    def of(self, *actors: str, renews: bool = False, breaks: bool = False) -> SimTable:
        return type(self)(self.process, self.database, actors, renews=renews, breaks=breaks)

    async def send(self, run: Callable[[TableStore, int], Any], *rows: bytes, **more: Any) -> Any:
        statement = Statement(run, self._actors, rows, **more)
        for _ in range(TRIES):
            try:
                return await Question(self.process, self.database, statement).ask()
            except Undone:
                continue
        raise BackendUnavailable("undone again and again", backend="sql")

    async def take(self, wanted: Take) -> Seen:
        answer: Seen = await self.send(lambda store, now: store.take(wanted, now), wanted.key)
        self._read_at = answer.now
        return answer

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        keys = [each.key for each in wanted]
        found = await self.send(lambda store, now: store.take_all(wanted, now), *keys)
        return cast("list[Seen] | None", found)

    async def extend(self, holds: Sequence[Extension]) -> list[bool]:
        keys = [each.key for each in holds]
        done = await self.send(lambda store, now: store.extend(holds, now), *keys, renews=True)
        return cast("list[bool]", done)

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        keys = [each.key for each in holds]
        found = await self.send(
            lambda store, now: store.give_back(holds, now), *keys, withdraws=True
        )
        return cast("list[Seen]", found)

    async def sweep(self, holds: Sequence[GiveBack]) -> list[Seen]:
        keys = [each.key for each in holds]
        found = await self.send(lambda store, now: store.sweep(holds, now), *keys)
        return cast("list[Seen]", found)

    async def leave(self, places: Sequence[GiveBack]) -> list[Seen]:
        keys = [each.key for each in places]
        leavers = tuple(each.claim_id for each in places)
        found = await self.send(
            lambda store, now: store.leave(places, now), *keys, withdraws=leavers == self._actors
        )
        return cast("list[Seen]", found)

    async def read(self, keys: Sequence[bytes]) -> tuple[list[Row | None], int]:
        rows, now = await self.send(lambda store, now: store.read(keys, now))
        self._read_at = now
        return rows, now

    async def swap(self, swaps: Sequence[Swap]) -> bool:
        seen_at = self.database.read_at.get(next(iter(self._actors), ""), 0)
        swapped = await self.send(
            lambda store, _: store.swap(swaps),
            *(each.key for each in swaps),
            read_at=self._read_at or seen_at,
            renews=self._renews,
            breaks=self._breaks,
        )
        return cast("bool", swapped)

    async def scan(
        self, prefix: bytes, after: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Row]], int]:
        found = await self.send(lambda store, now: store.scan(prefix, after, limit, now))
        return cast("tuple[list[tuple[bytes, Row]], int]", found)

    async def beat(self, client: str, ttl: int) -> None:
        await self.send(lambda store, now: store.beat(client, ttl, now))

    async def living(self, clients: Sequence[str], longest: int) -> set[str]:
        found = await self.send(lambda store, now: store.living(clients, longest, now))
        return cast("set[str]", found)

    async def prune(self, limit: int) -> int:
        done = await self.send(lambda store, now: store.prune(limit, now))
        return cast("int", done)

    async def version(self) -> str:
        return "simulated"

    async def close(self) -> None:
        """Nothing to close: messages under way stay under way."""

    def forked(self) -> None:
        """Simulated processes do not fork."""

    def dropped(self) -> None:
        """Nothing to drop."""
