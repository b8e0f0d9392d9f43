"""What one connection says that has named locks: it takes them, waits for them, and writes the row.

Each of its statements is committed by itself: the number of a grant is not taken back when its
holder dies (S13).
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pymysql

from locknut.backends.sql.mysql.literals import bound, parameters, values_of
from locknut.backends.sql.mysql.mysql_table import granted, told, written
from locknut.backends.sql.sql_table import seen_in
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.session_pool import TRIES
from locknut.drivers.mysql.sessions import READ_COMMITTED, REPEATABLE_READ, Rows, Session
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from locknut.backends.sql.mysql.named_locks import NamedLockSessions

T = TypeVar("T")
WAIT: Final = 30
"""Seconds for which the server waits at a time, a whole number of them: MySQL rounds fractions."""
_NOT_GOT: Final = 1690
"""Out of range: how a statement of ours keeps the next one from being done."""
_ENTER: Final = (
    "SELECT IF(RELEASE_ALL_LOCKS() >= 0 AND {locks}, CONNECTION_ID(), CAST(RAND() AS UNSIGNED) - 2)"
)
"""Whatever an earlier try has taken is given up first: locks of one connection add up. Nothing is
known of RAND() before it is needed, so that this fails only where it comes to it."""
KNOWN: Final = (
    "AND IF(CONNECTION_ID() = :number AND RELEASE_ALL_LOCKS() >= 0, GET_LOCK(:gate, 0), 0) = 1"
)
"""The same within a statement on a row that is there. Not where the server writes statements to its
binary log: a replica would try for the gate as well."""
_FREE_ALL: Final = "SELECT RELEASE_ALL_LOCKS()"
"""Not DO, which would say nothing of an error."""
_GIVEN_UP: Final = frozenset({1213, 1317, 3058})
"""A wait that was interrupted, or would have been a deadlock; MariaDB and MySQL number it
differently."""


def name_of(lock: bytes) -> str:
    """In lower case and less than 64 characters: MySQL allows no more, and minds no case."""
    return f"'locknut:{lock.hex()}'"


def wait_of(number: int, lock: bytes) -> str:
    """What a connection of this number has while it waits for that lock, so that others can tell
    it from whoever has the same number after a restart of the server.
    """
    return f"'locknut:{lock.hex()}:{number}'"


class NamedLockSession:
    """A `LockSession`. What blocks is done by `run`, as its colour does."""

    longest_wait: float = WAIT

    def __init__(self, session: Session, home: NamedLockSessions):
        self.number = session.number
        self._session = session
        self._home = home
        self._run = home.run
        self._say = home.statements
        self._demand = home.demand
        self.fileno = session.fileno
        self.alive = session.alive

    async def enter(self, gate: bytes, own: bytes | None, wanted: Take) -> tuple[bool, Seen | None]:
        """By one statement, where that is likely to do; else by two, of which the second is done
        only if the first got the gate.
        """
        return await self._run(lambda: self._enter(gate, own, wanted))

    def _enter(self, gate: bytes, own: bytes | None, wanted: Take) -> tuple[bool, Seen | None]:
        if self._is_short and self._demand.is_known(wanted.key) and wanted.mode == "e":
            arguments = {**wanted._asdict(), "gate": f"locknut:{gate.hex()}", "number": self.number}
            rows = self._ask_kept(self._home.enter_known, arguments)
            if told(rows):
                return True, granted(wanted, rows)
        locks = [f"GET_LOCK({name_of(each)}, 0) = 1" for each in (own, gate) if each is not None]
        enter = _ENTER.format(locks=" AND ".join(locks))
        try:
            entered, *taken = self._ask([enter, *self._bound(_way_in(wanted), wanted)])
        except pymysql.MySQLError:  # all others are translated
            self._demand.refused(wanted)
            return False, self._read(wanted)
        if entered[0][0] != self.number:
            raise self._home.shared()
        return True, self._seen(taken, wanted)

    @property
    def _is_short(self) -> bool:
        """Whether locks may be taken and freed by the statements that write."""
        return self._home.kept.isolation == READ_COMMITTED

    async def take(self, wanted: Take) -> Seen | None:
        said = self._bound(_way_in(wanted), wanted)
        return await self._run(lambda: self._seen(self._ask(said), wanted))

    def _seen(self, taken: Sequence[Rows], wanted: Take) -> Seen | None:
        (rows,) = taken
        if rows if _way_in(wanted) == "take" else told(rows):
            self._demand.taken(wanted)
            return granted(wanted, rows)
        self._demand.refused(wanted)
        # After the short statement a row that shows our own hold would be no answer: nothing has
        # set its ttl anew.
        return None if _way_in(wanted) == "take_free" else self._read(wanted)

    def _read(self, wanted: Take) -> Seen:
        return seen_in(self._ask(self._bound("read", wanted))[0])

    async def give_back(self, hold: GiveBack) -> Seen:
        """By one statement, if nobody else holds: the next one has the gate a little before the row
        is committed, and its statement waits for the row. Else by two.
        """
        return await self._run(lambda: self._give_back(hold))

    def _give_back(self, hold: GiveBack) -> Seen:
        if self._is_short and hold.alone:
            rows = self._ask_kept(self._say.give_back_leaving[0], hold._asdict(), first=False)
            if told(rows):
                return written(hold, rows)
        rows, _ = self._ask([*self._bound("give_back", hold), _FREE_ALL])
        return written(hold, rows)

    async def keep(self, lock: bytes) -> bool:
        taken = f"SELECT GET_LOCK({name_of(lock)}, 0)"
        ((got,),) = (await self._run(lambda: self._ask([taken])))[0]
        return bool(got == 1)

    async def free(self, lock: bytes | None) -> None:
        free = _FREE_ALL if lock is None else f"SELECT RELEASE_LOCK({name_of(lock)})"
        await self._run(lambda: self._ask([free]))

    async def wait(self, lock: bytes) -> None:
        own = wait_of(self.number, lock)
        marked = f"GET_LOCK({own}, 0), GET_LOCK({name_of(lock)}, {WAIT}), RELEASE_LOCK({own})"
        packet = f"SELECT {marked}"
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
            return bool(self._translated(lambda: self._session.receive([]))[0][0][1] == 1)
        except LocknutError as error:
            if mysql_errors.code_of(error.__cause__ or error) in _GIVEN_UP:
                return False
            raise

    def _bound(self, part: str, arguments: Any) -> list[str]:
        return [bound(each, arguments._asdict()) for each in getattr(self._say, part)]

    def _ask(self, statements: Sequence[str]) -> list[Rows]:
        """In one packet, each committed by itself; what was undone is tried again."""
        packet = ";".join(statements)
        return self._tried(lambda: self._session.run(packet, self._left()))

    def _ask_kept(self, statement: str, arguments: dict[str, Any], *, first: bool = True) -> Rows:
        """One that the server need not read anew each time; by its words, where it keeps none. To
        have it kept is a round trip more: `first`, if that is worth it though none is kept yet.
        """
        if self._session.keeps and (first or self._session.kept):
            names, values = parameters(statement), values_of(statement, arguments)
            try:
                return self._tried(lambda: self._session.run_kept(names, values, self._left()))
            except pymysql.MySQLError:  # nothing was done
                self._session.keeps = False
        (rows,) = self._ask([bound(statement, arguments)])
        return rows

    def _tried(self, work: Callable[[], T]) -> T:
        for left in range(TRIES, 0, -1):
            try:
                return work()
            except pymysql.MySQLError as error:
                code = mysql_errors.code_of(error)
                if code == _NOT_GOT or code in mysql_errors.NOT_KEPT:
                    raise
                if left == 1 or not self._learned(code):
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
    """A caller that comes alone, and has the gate, mostly finds the row free: the short statement
    will do. Else it looks at the row, and decides by that.
    """
    return "take_free" if wanted.mode == "e" else "take"


def _same_socket(descriptor: int) -> socket.socket:
    return socket.socket(fileno=os.dup(descriptor))
