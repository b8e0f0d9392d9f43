"""One session on the server, and what it says to the table: a statement at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.sql.database import Statement
from tests.simulation.sql.statements import Undone

if TYPE_CHECKING:
    from tests.simulation.sql.session.server import SessionDatabase
    from tests.simulation.sql.session.wire import Wire


def nothing() -> None:
    """Nothing to do."""


class Interrupted(Exception):
    """The statement was cancelled from elsewhere."""


class ServerSession:
    """One of them, on the server."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.wire: Wire | None = None
        self.alive = True
        self.locks: dict[bytes, None] = {}
        self.waits_for: bytes | None = None
        self.names: dict[str, None] = {}
        """Of the locks that it was used for."""
        self.statement: SessionStatement | None = None
        """What it is doing."""
        self.backlog: deque[Callable[[ServerSession], None]] = deque()
        self.call_off: Callable[[], None] = nothing
        """So that the end of an earlier wait does not end a later one."""

    @property
    def busy(self) -> bool:
        return self.waits_for is not None or self.statement is not None


class SessionStatement:
    """A statement on the table that a session says: a question as `Database` sees it."""

    def __init__(
        self,
        database: SessionDatabase,
        session: ServerSession,
        statement: Statement,
        then: Callable[[], None] = nothing,
    ) -> None:
        self.statement = statement
        self.session = session
        self.frees_early = False
        """Whether the locks of the session are free before it is committed."""
        self._database = database
        self._then = then
        self._over = False
        session.statement = self

    @property
    def generation(self) -> int:
        """Whether it may still be done."""
        gone = self._over or not self.session.alive
        return -1 if gone else self._database.generation

    def answered(self, what: Any) -> None:
        self._then()
        self._end(what)

    def undone(self) -> None:
        if self.generation != -1:
            self._end(Undone())

    def interrupted(self) -> None:
        self._end(Interrupted())

    def _end(self, what: Any) -> None:
        self._over = True
        self.session.statement = None
        self._database.done(self.session, what)
