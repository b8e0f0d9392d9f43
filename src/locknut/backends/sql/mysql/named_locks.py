"""Session mode on MySQL and MariaDB: named locks, which belong to a connection and to no
transaction.

So the connection that has them also writes the row. A locked row would need an open transaction all
the time, and another connection for the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pymysql

from locknut.backends.sql.demand import Demand
from locknut.backends.sql.mysql.named_lock_session import NamedLockSession, name_of, wait_of
from locknut.backends.sql.statements import Statements
from locknut.drivers.loop_workers import LoopWorkers
from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.kept_sessions import KeptSessions
from locknut.drivers.mysql.session_pool import SessionPool
from locknut.errors import BackendError, ConfigurationError

T = TypeVar("T")
_IDLE: Final = "SET SESSION wait_timeout = 31536000"
"""A year: a connection that holds a lock has nothing to say."""
_NO_SUCH_SESSION: Final = 1094
_NOT_OURS: Final = 1095


async def _at_once(work: Callable[[], T]) -> T:
    return work()


class NamedLockSessions:
    """`LockSessions` of one client."""

    def __init__(
        self,
        kept: KeptSessions,
        commands: SessionPool,
        statements: Statements,
        enter_known: str,
        workers: LoopWorkers | None,
        place: str,
    ):
        """`enter_known`: `take_known` with `KNOWN`. `workers` do what blocks, for a loop."""
        self.kept = kept
        self.statements = statements
        self.enter_known = enter_known
        self.demand = Demand()
        self._workers: list[LoopWorkers] = []
        self.run = self._run_opening = _at_once
        if workers is not None:
            # Who waits for a connection has threads of its own: those who could give one back
            # would have to wait behind it.
            settings = kept.settings
            most, limit = settings.connections, settings.limit
            openers = LoopWorkers("mysql", most, limit, kept.all_taken)
            self._workers = [workers, openers]
            self.run, self._run_opening = workers.run, openers.run
        self.place = place
        self._commands = commands
        self.translated = commands.translated
        self.create_table = commands.create_table
        self._warm = False
        self.inside = commands.inside

    async def open(self) -> NamedLockSession:
        if not self._warm:  # renewals must not find the server full of our own locks
            await self.owners([bytes(16)])
            self._warm = True
        return await self._run_opening(self._open)

    def _open(self) -> NamedLockSession:
        session = self.kept.take()
        try:
            if not session.number:
                _, number = session.run(f"{_IDLE};SELECT CONNECTION_ID()", self.kept.left())
                (again,) = session.run("SELECT CONNECTION_ID()", self.kept.left())
                if number != again:
                    raise self.shared()
                session.number = int(number[0][0])
            return NamedLockSession(session, self)
        except BaseException as error:
            self.kept.drop(session)
            if isinstance(error, pymysql.MySQLError):
                raise self.translated(error) from error
            raise

    def shared(self) -> ConfigurationError:
        """There is no connection that a lock could belong to."""
        settings = self.kept.settings
        message = (
            f"mode=session needs connections of its own with the server, and {settings.address} is "
            "a proxy that shares them: connect to the server itself, or use mode=lease"
        )
        return ConfigurationError(message, backend=settings.scheme)

    async def owners(self, locks: Sequence[bytes]) -> dict[bytes, int]:
        if not locks:
            return {}
        asked = "SELECT " + ", ".join(f"IS_USED_LOCK({name_of(lock)})" for lock in locks)
        ((found, *_), *_) = await self.run(lambda: self._commands.ask([asked]))
        return {lock: int(number) for lock, number in zip(locks, found, strict=True) if number}

    async def interrupt(self, number: int, lock: bytes) -> None:
        await self._kill("KILL QUERY", number, f"IS_USED_LOCK({wait_of(number, lock)}) = {number}")

    async def end(self, number: int, lock: bytes) -> None:
        names = name_of(lock), wait_of(number, lock)
        either = " OR ".join(f"IS_USED_LOCK({name}) = {number}" for name in names)
        await self._kill("KILL", number, either)

    async def _kill(self, kill: str, number: int, only_if: str) -> None:
        asked = f"{kill} IF({only_if}, {number}, 0)"
        try:
            await self.run(lambda: self._commands.ask([asked]))
        except BackendError as error:
            code = mysql_errors.code_of(error.__cause__ or error)
            if code == _NOT_OURS:
                message = (
                    f"{kill} {number}: the connection that has this lock is another user's, and "
                    "must be ended by that user, or by one that may kill those of others"
                )
                raise BackendError(message, backend=self.kept.settings.scheme) from error
            if code != _NO_SUCH_SESSION:
                raise

    def close(self) -> None:
        self.kept.close()
        for each in self._workers:
            each.close()

    def forked(self) -> None:
        self.kept.forked()
        for each in self._workers:
            each.forked()
