"""What the guards of both colours have in common: a connection, a name, and a fence."""

from __future__ import annotations

from typing import Any

from locknut.core import validation
from locknut.guards.fences import stale
from locknut.guards.sql.dialects import Asking
from locknut.guards.sql.own_connection import OwnConnection

TABLE = "locknut_guards"


class SqlGuardBase:
    """Entered with one fence, for what belongs to one name."""

    _awaits: bool

    def __init__(
        self,
        connection: Any,
        name: str,
        *,
        table: str = TABLE,
        dialect: str | None = None,
        paramstyle: str | None = None,
    ) -> None:
        self.name = validation.name(name)
        self._own = OwnConnection(connection, table, dialect, paramstyle)
        self._own.check_colour(awaits=self._awaits)
        self._fence: int | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, fence={self._fence})"

    @property
    def fence(self) -> int | None:
        """The fence this guard was entered with."""
        return self._fence

    def _entering(self, fence: int) -> Asking[None]:
        newest = yield from self._own.dialect.enter(fence)
        if newest > fence:
            raise stale(fence, newest, self.name)
        self._fence = fence

    def _looking(self) -> Asking[int | None]:
        rows = yield self._own.dialect.newest
        return int(rows[0][0]) or None if rows else None

    def _values(self, fence: int | None = None) -> dict[str, Any]:
        name = self.name.encode()
        return {"name": name, "hexed": name.hex(), "fence": fence}
