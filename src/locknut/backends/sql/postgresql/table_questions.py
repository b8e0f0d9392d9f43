"""How the table of locks is asked: on any free session, and again where that is safe.

A statement that the server undid (a deadlock, a lock it could not get) is sent again a few times. A
statement without an answer is not: whoever sent it does not know what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import psycopg

from locknut.drivers.postgresql import exchange, sqlstates
from locknut.drivers.postgresql.exchange import Call, Refused, Row, Steps, T
from locknut.drivers.postgresql.server_session import Session
from locknut.drivers.postgresql.session_pool import SessionPool
from locknut.drivers.postgresql.settings import NAME
from locknut.errors import BackendUnavailable, ConfigurationError, LocknutError

PATIENCE: Final = 10.0
"""Seconds to wait for a session: with many callers it may take some rounds until one is free."""
TRIES: Final = 6
"""Of a statement that was undone each time."""


class Line(Protocol):
    """How one colour waits."""

    pool: SessionPool

    def until(self, limit: float) -> float:
        """TimeoutError, if the caller has no time left."""

    async def session(self, until: float) -> Session: ...

    async def drive(self, session: Session, steps: Steps[T], until: float) -> T: ...

    def inside(self) -> bool: ...

    def forked(self) -> None: ...


class Questions:
    """One backend's, to one table."""

    def __init__(self, line: Line, table: str, create: Sequence[str]):
        self._line = line
        self._pool = line.pool
        self._settings = line.pool.settings
        self._table = table
        self._create = create
        self.inside = line.inside
        self.hung_up = line.pool.hung_up

    async def ask(self, calls: Sequence[Call], *, apart: bool = False) -> list[list[Row]]:
        """The rows of each; together they are one transaction, unless they are to be `apart`."""
        undone: Refused | None = None
        for left in reversed(range(TRIES)):
            try:
                return await self._ask_once(partial(_asked, calls, apart))
            except Refused as error:
                if left and error.code in sqlstates.TRY_AGAIN:
                    undone = error
                    continue
                if left and error.code in sqlstates.NO_TABLE:
                    await self._create_table()
                    continue
                if error.code == sqlstates.CHECK_FAILED:
                    raise
                raise self.failure(error) from error
            except BackendUnavailable as error:
                if undone is None:
                    raise
                raise self.failure(undone) from error
        raise AssertionError("unreachable")  # pragma: no cover

    async def _ask_once(self, asked: Callable[[Session], Steps[T]]) -> T:
        try:
            session = await self._line.session(self._line.until(PATIENCE))
        except TimeoutError as error:
            raise self._no_session(error) from error
        try:
            until = self._line.until(self._settings.limit)
        except TimeoutError as error:
            self._pool.give_back(session)
            raise self.unanswered(error) from error
        except BaseException:
            self._pool.drop(session)
            raise
        try:
            answer = await self._line.drive(session, asked(session), until)
            if session.epoch != self._pool.primary.epoch:
                raise OSError("another server took its place meanwhile")
        except Refused as error:
            self._settle(session, error)
            raise
        except (psycopg.Error, OSError) as error:
            self._pool.drop(session)
            raise self.unanswered(error) from error
        except BaseException:
            self._pool.drop(session)
            raise
        lent_to = session.lent_to
        try:
            self._pool.give_back(session)
        except BaseException:  # an interrupt (Ctrl-C), perhaps before it had begun
            if session.lent_to is lent_to:
                self._pool.give_back(session)
            raise
        return answer

    def _settle(self, session: Session, error: Refused) -> None:
        """A refusal leaves the session in order, unless it is about the session."""
        if error.code in sqlstates.NOT_PREPARED:
            if error.code != sqlstates.PLAN_CHANGED:
                self._pool.primary.is_pooled()  # somebody else has this session, too
            self._pool.drop(session)
        elif sqlstates.ends_session(error):
            self._pool.drop(session)
        else:
            self._pool.give_back(session)

    async def _create_table(self) -> None:
        for text in self._create:
            try:
                await self._ask_once(partial(_said, text))
            except Refused as error:
                if error.code in sqlstates.TABLE_JUST_MADE:
                    continue
                if error.code not in (sqlstates.NO_RIGHT, *sqlstates.NO_TABLE):
                    raise self.failure(error) from error
                message = (
                    f"there is no table {self._table}, and this user may not create it ({error}): "
                    "let somebody who may run what `locknut schema -u URL` shows"
                )
                raise ConfigurationError(message, backend=NAME) from error

    def _no_session(self, error: TimeoutError) -> BackendUnavailable:
        message = (
            f"{self._settings.place}: none of {self._settings.connections} connections was free "
            "in time, or the server did not answer to a new one (connections= sets the number)"
        )
        failed = BackendUnavailable(message, backend=NAME)
        failed.__cause__ = error
        return failed

    def failure(self, error: Refused) -> LocknutError:
        return sqlstates.failure(error, self._settings, self._table)

    def unanswered(self, error: Exception) -> BackendUnavailable:
        text = " ".join(str(error).split()) or type(error).__name__
        return BackendUnavailable(f"{self._settings.place}: {text}", backend=NAME)

    async def close(self) -> None:
        self._pool.close()

    def forked(self) -> None:
        self._line.forked()

    def dropped(self) -> None:
        self._pool.close()


class PinnedQuestions(Questions):
    """The same on one session, that somebody else has taken and will give back or drop."""

    def __init__(self, line: Line, table: str, create: Sequence[str], session: Session):
        super().__init__(line, table, create)
        self._session = session

    async def _ask_once(self, asked: Callable[[Session], Steps[T]]) -> T:
        try:
            return await self.drive(asked(self._session))
        except Refused as error:
            if error.code not in sqlstates.NOT_PREPARED:
                raise
            if error.code != sqlstates.PLAN_CHANGED:
                self._pool.primary.is_pooled()
            raise self.unanswered(error) from error

    async def drive(self, steps: Steps[T]) -> T:
        """An exchange, within the limit of a command."""
        try:
            until = self._line.until(self._settings.limit)
            answer = await self._line.drive(self._session, steps, until)
            if self._session.epoch != self._pool.primary.epoch:
                raise OSError("another server took its place meanwhile")
        except (psycopg.Error, OSError) as error:
            raise self.unanswered(error) from error
        return answer


def _asked(calls: Sequence[Call], apart: bool, session: Session) -> Steps[list[list[Row]]]:
    return session.ask_apart(calls) if apart else session.ask(calls)


def _said(text: str, session: Session) -> Steps[list[Row]]:
    return exchange.plain(session.connection, text)
