"""An SQL engine whose table is the reference (`TableStore`), in this process: the recipe alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.table_port import Extension, GiveBack, Row, Seen, Swap, Take
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from tests.simulation.sql.table_store import TableStore


class LocalPlace:
    """What all engines of a test share: the table, and who can be rung."""

    def __init__(self) -> None:
        self.store = TableStore()
        self.mutex = threading.RLock()
        self.rings: dict[str, Callable[[], None]] = {}
        self.clock: Callable[[], int] = lambda: time.time_ns() // 1000


class LocalTable:
    """The statements."""

    inside = staticmethod(bool)

    def __init__(self, place: LocalPlace):
        self._store = place.store
        self._mutex = place.mutex
        self._place = place
        self.statements = 0

    def _now(self) -> int:
        self.statements += 1
        return self._place.clock()

    async def take(self, wanted: Take) -> Seen:
        with self._mutex:
            return self._store.take(wanted, self._now())

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        with self._mutex:
            return self._store.take_all(wanted, self._now())

    async def extend(self, holds: Sequence[Extension]) -> list[bool]:
        with self._mutex:
            return self._store.extend(holds, self._now())

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        with self._mutex:
            return self._store.give_back(holds, self._now())

    async def sweep(self, holds: Sequence[GiveBack]) -> list[Seen]:
        with self._mutex:
            return self._store.sweep(holds, self._now())

    async def leave(self, places: Sequence[GiveBack]) -> list[Seen]:
        with self._mutex:
            return self._store.leave(places, self._now())

    async def read(self, keys: Sequence[bytes]) -> tuple[list[Row | None], int]:
        with self._mutex:
            return self._store.read(keys, self._now())

    async def swap(self, swaps: Sequence[Swap]) -> bool:
        with self._mutex:
            self._now()
            return self._store.swap(swaps)

    async def scan(
        self, prefix: bytes, after: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Row]], int]:
        with self._mutex:
            return self._store.scan(prefix, after, limit, self._now())

    async def beat(self, client: str, ttl: int) -> None:
        with self._mutex:
            self._store.beat(client, ttl, self._now())

    async def living(self, clients: Sequence[str], longest: int) -> set[str]:
        with self._mutex:
            return self._store.living(clients, longest, self._now())

    async def prune(self, limit: int) -> int:
        with self._mutex:
            return self._store.prune(limit, self._now())

    async def version(self) -> str:
        return "a table in Python"

    async def close(self) -> None: ...

    def forked(self) -> None: ...

    def dropped(self) -> None: ...


class LocalBells:
    """Rings within the process."""

    wakes = True

    def __init__(self, rings: dict[str, Callable[[], None]], runtime: Runtime):
        self._rings = rings
        self.client = runtime.new_id()

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:
        new = claim_id not in self._rings
        self._rings[claim_id] = ring
        if new:
            ring()  # somebody may have rung just before

    def forget(self, claim_id: str) -> None:
        self._rings.pop(claim_id, None)

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        for _, claim_id in waiting:
            if (ring := self._rings.get(claim_id)) is not None:
                ring()

    async def close(self) -> None: ...

    def forked(self) -> None: ...

    def dropped(self) -> None: ...


class LocalEngine(BaseEngine):
    """Everything in one process."""

    id = "sql:local"

    def __init__(self, place: LocalPlace):
        self._place = place

    def blocking(self, runtime: Runtime) -> SqlBackend:
        bells = LocalBells(self._place.rings, runtime)
        return SqlBackend("sql", LocalTable(self._place), bells, runtime)

    def asyncio(self, runtime: Runtime) -> SqlBackend:
        return self.blocking(runtime)
