"""Clients of one table under one clock, whose statements get lost when a test says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.table_port import US
from locknut.core.values import Claim
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.sql.local_engine import LocalBells, LocalPlace, LocalTable


class Scene:
    """Clients of one table, and one clock for all of them."""

    def __init__(self) -> None:
        self.place = LocalPlace()
        self.runtime = ThreadRuntime()
        self.moment = 1_000_000.0
        self.runtime.now = lambda: self.moment
        self.place.clock = lambda: int(self.moment * US)
        self.unanswered: list[str] = []
        """Statements that are done next, and whose answers are lost."""
        self.sent: list[str] = []

    def client(self) -> SqlBackend:
        table: Any = Recorded(LocalTable(self.place), self)
        return SqlBackend("sql", table, LocalBells(self.place.rings, self.runtime), self.runtime)

    def pass_time(self, seconds: float) -> None:
        self.moment += seconds


class Recorded:
    """A table whose statements are written down."""

    def __init__(self, table: LocalTable, scene: Scene) -> None:
        self._table = table
        self._scene = scene

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def send(*said: Any) -> Any:
            self._scene.sent.append(name)
            answer = await getattr(self._table, name)(*said)
            if name in self._scene.unanswered:
                self._scene.unanswered.remove(name)
                raise BackendUnavailable("no answer")
            return answer

        return send


def claims(*numbers: int, **more: Any) -> tuple[Claim, ...]:
    """Of one key, with ids that are numbers."""
    return tuple(Claim("a:x", f"{number:032x}", 60.0)._replace(**more) for number in numbers)
