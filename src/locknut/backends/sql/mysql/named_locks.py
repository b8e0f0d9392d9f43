"""Session mode on MySQL and MariaDB: named locks, which belong to a connection and to no
transaction.

So the connection that has them also writes the row, and each of its statements is committed by
itself: the number of a grant is not taken back when its holder dies (S13). A locked row would need
an open transaction all the time, and another connection for the number.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Final, TypeVar

import pymysql

from locknut.backends.sql.mysql.literals import bound
from locknut.backends.sql.mysql.mysql_table import granted, written
from locknut.backends.sql.sql_table import seen_in
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.kept_sessions import KeptSessions
from locknut.drivers.mysql.loop_workers import LoopWorkers
from locknut.drivers.mysql.session_pool import TRIES, SessionPool
from locknut.drivers.mysql.sessions import REPEATABLE_READ, Rows, Session
from locknut.errors import BackendError, ConfigurationError, LocknutError

T = TypeVar("T")
WAIT: Final = 30
"""Seconds for which the server waits at a time, a whole number of them: MySQL rounds fractions."""
_IDLE: Final = "SET SESSION wait_timeout = 31536000"
"""A year: a connection that holds a lock has nothing to say."""
_NOT_GOT: Final = 1690
"""Out of range: how a statement of ours keeps the next one from being done."""
_ENTER: Final = (
    "SELECT IF(RELEASE_ALL_LOCKS() >= 0 AND {locks}, CONNECTION_ID(), CAST(RAND() AS UNSIGNED) - 2)"
)
"""Whatever an earlier try has taken is given up first: locks of one connection add up. Nothing is
known of RAND() before it is needed, so that this fails only where it comes to it."""
_FREE_ALL: Final = "SELECT RELEASE_ALL_LOCKS()"
"""Not DO, which would say nothing of an error."""
_GIVEN_UP: Final = frozenset({1213, 1317, 3058})
"""A wait that was interrupted, or would have been a deadlock; MariaDB and MySQL number it
differently."""
_NO_SUCH_SESSION: Final = 1094
_NOT_OURS: Final = 1095


def name_of(lock: bytes) -> str:
    """In lower case and less than 64 characters: MySQL allows no more, and minds no case."""
    return f"'locknut:{lock.hex()}'"


class NamedLockSession:
    """A `LockSession`. What blocks is done by `run`, as its colour does."""

    longest_wait: float = WAIT

    def __init__(self, session: Session, home: NamedLockSessions):
        self.number = session.number
        self._session = session
        self._home = home
        self._run = home.run
        self._say = home.statements
        self.fileno = session.fileno
        self.alive = session.alive

    async def enter(self, gate: bytes, own: bytes | None, wanted: Take) -> tuple[bool, Seen | None]:
        locks = [f"GET_LOCK({name_of(each)}, 0) = 1" for each in (own, gate) if each is not None]
        enter = _ENTER.format(locks=" AND ".join(locks))
        return await self._run(lambda: self._enter(enter, wanted))

    def _enter(self, enter: str, wanted: Take) -> tuple[bool, Seen | None]:
        try:
            entered, *taken = self._ask([enter, *self._bound(_way_in(wanted), wanted)])
        except pymysql.MySQLError:  # all others are translated
            return False, self._read(wanted)
        if entered[0][0] != self.number:
            raise self._home.shared()
        return True, self._seen(taken, wanted)

    async def take(self, wanted: Take) -> Seen | None:
        said = self._bound(_way_in(wanted), wanted)
        return await self._run(lambda: self._seen(self._ask(said), wanted))

    def _seen(self, taken: Sequence[Rows], wanted: Take) -> Seen | None:
        rows = next((each for each in taken if each), None)
        if rows is not None:
            return granted(wanted, rows)
        # After the short statement a row that shows our own hold would be no answer: nothing has
        # set its ttl anew.
        return None if _way_in(wanted) == "take_free" else self._read(wanted)

    def _read(self, wanted: Take) -> Seen:
        return seen_in(self._ask(self._bound("read", wanted))[0])

    async def give_back(self, hold: GiveBack) -> Seen:
        statements = [*self._bound("give_back", hold), _FREE_ALL]
        rows, *_ = await self._run(lambda: self._ask(statements))
        return written(hold, rows)

    async def keep(self, lock: bytes) -> None:
        await self._run(lambda: self._ask([f"SELECT GET_LOCK({name_of(lock)}, 0)"]))

    async def free(self, lock: bytes | None) -> None:
        free = _FREE_ALL if lock is None else f"SELECT RELEASE_LOCK({name_of(lock)})"
        await self._run(lambda: self._ask([free]))

    async def wait(self, lock: bytes) -> None:
        packet = f"SELECT GET_LOCK({name_of(lock)}, {WAIT})"
        await self._run(lambda: self._translated(lambda: self._session.send(packet, self._left())))

    async def waited(self) -> bool | None:
        return await self._run(self._heard) if self._has_arrived(0.0) else None

    async def stopped(self, seconds: float) -> bool:
        def heard() -> bool:
            return self._has_arrived(seconds) and self._heard() is not None

        return await self._run(heard)

    def _has_arrived(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _heard(self) -> bool:
        try:
            return bool(self._translated(lambda: self._session.receive([]))[0][0][0] == 1)
        except LocknutError as error:
            if mysql_errors.code_of(error.__cause__ or error) in _GIVEN_UP:
                return False
            raise

    def _bound(self, part: str, arguments: Any) -> list[str]:
        return [bound(each, arguments._asdict()) for each in getattr(self._say, part)]

    def _ask(self, statements: Sequence[str]) -> list[Rows]:
        """In one packet, each committed by itself; what was undone is tried again."""
        for left in range(TRIES, 0, -1):
            try:
                return self._session.run(";".join(statements), self._left())
            except pymysql.MySQLError as error:
                if mysql_errors.code_of(error) == _NOT_GOT:
                    raise
                if left == 1 or not self._learned(mysql_errors.code_of(error)):
                    raise self._home.translated(error) from error
        raise AssertionError("the last try raises")

    def _learned(self, code: int) -> bool:
        """Whether trying again is worth it."""
        if code == mysql_errors.NO_TABLE:
            self._home.create_table()
        elif code == mysql_errors.ROW_FORMAT_ONLY:
            self._home.kept.isolation = REPEATABLE_READ
            again = f"SET SESSION TRANSACTION ISOLATION LEVEL {REPEATABLE_READ}"
            self._translated(lambda: self._session.run(again, self._left()))
        else:
            return code in mysql_errors.UNDONE
        return True

    def _translated(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except pymysql.MySQLError as error:
            raise self._home.translated(error) from error

    def _left(self) -> float:
        return self._home.kept.left()

    def back(self) -> None:
        self._home.kept.give_back(self._session)

    def drop(self) -> None:
        self._home.kept.drop(self._session)

    def cut(self) -> None:
        with suppress(OSError, AttributeError), closing(_same_socket(self.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)


def _way_in(wanted: Take) -> str:
    """Who comes alone, and has the gate, mostly finds the row free: the short statement will do.
    Else the caller looks at the row, and decides by that.
    """
    return "take_free" if wanted.mode == "e" else "take"


def _same_socket(descriptor: int) -> socket.socket:
    return socket.socket(fileno=os.dup(descriptor))


async def _at_once(work: Callable[[], T]) -> T:
    return work()


class NamedLockSessions:
    """`LockSessions` of one client."""

    def __init__(
        self,
        kept: KeptSessions,
        commands: SessionPool,
        statements: Statements,
        workers: LoopWorkers | None,
        place: str,
    ):
        """`workers` do what blocks, for a loop."""
        self.kept = kept
        self.statements = statements
        self._workers: list[LoopWorkers] = []
        self.run = self._run_opening = _at_once
        if workers is not None:
            # Who waits for a connection has threads of its own: those who could give one back
            # would have to wait behind it.
            settings = kept.settings
            openers = LoopWorkers(settings.connections, settings.limit, kept.all_taken)
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

    async def interrupt(self, number: int) -> None:
        await self._kill(f"KILL QUERY {number}")

    async def end(self, number: int) -> None:
        await self._kill(f"KILL {number}")

    async def _kill(self, statement: str) -> None:
        try:
            await self.run(lambda: self._commands.ask([statement]))
        except BackendError as error:
            code = mysql_errors.code_of(error.__cause__ or error)
            if code == _NOT_OURS:
                message = (
                    f"{statement}: the connection that has this lock is another user's, and must "
                    "be ended by that user, or by one that may kill those of others"
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
