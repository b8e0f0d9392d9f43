"""The connections of one client to MySQL: statements in packets, and what a full server allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from time import monotonic, sleep
from typing import Final

import pymysql

from locknut.drivers.connection_pool import ConnectionPool
from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.sessions import READ_COMMITTED, REPEATABLE_READ, Rows, Session
from locknut.drivers.mysql.settings import Settings
from locknut.errors import LocknutError

TRIES: Final = 5
"""How often a statement is sent that was undone by a lock wait or a deadlock."""
PAUSE: Final = 0.005
"""Seconds between two looks for a connection that comes back, where the server gives no other."""


class SessionPool(ConnectionPool[Session]):
    """For many threads."""

    errors = pymysql.MySQLError
    tries = TRIES

    def __init__(self, settings: Settings, table: str, create: str):
        self.settings = settings
        self._table = table
        self._create = create
        super().__init__(settings)

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._isolation = READ_COMMITTED

    def ask(self, statements: Sequence[str]) -> list[Rows]:
        """In one packet, each by itself. What was undone is tried again, and what was done is not:
        a second release would find nothing.
        """
        answers: list[Rows] = []

        def work(session: Session, left: Callable[[], float]) -> list[Rows]:
            return session.run(";".join(statements[len(answers) :]), left(), answers)

        return self.with_session(work)

    def ask_all(self, statements: Sequence[str], good: Callable[[list[Rows]], bool]) -> bool:
        """In one transaction, which is undone unless the answers are good."""
        packet = ";".join(("START TRANSACTION", *statements))

        def work(session: Session, left: Callable[[], float]) -> bool:
            _, *answers = session.run(packet, left())
            fine = good(answers)
            session.run("COMMIT" if fine else "ROLLBACK", left())
            return fine

        return self.with_session(work, transaction=True)

    def is_answer(self, error: BaseException) -> bool:
        return mysql_errors.is_answer(error)

    def _learn(self, error: Exception, tries_left: int) -> None:
        code = mysql_errors.code_of(error)
        if tries_left > 1:
            if code == mysql_errors.NO_TABLE:
                self.create_table()
                return
            if code == mysql_errors.ROW_FORMAT_ONLY and self._isolation == READ_COMMITTED:
                self._isolation = REPEATABLE_READ
                self._forget()
                return
            if code in mysql_errors.UNDONE:
                return
        raise self.translated(error) from error

    def translated(self, error: Exception) -> LocknutError:
        return mysql_errors.translated(error, self.settings, self._table)

    def create_table(self) -> None:
        """Where there is none."""
        try:
            self._once(lambda session, left: session.run(self._create, left()), transaction=False)
        except pymysql.MySQLError as error:
            raise self.translated(error) from error

    def _open(self) -> Session:
        return Session(self.settings, self._left(), self._isolation)

    def _session(self) -> Session:
        give_up = monotonic() + self._left()
        while True:
            try:
                return super()._session()
            except pymysql.MySQLError as error:
                # The server may be full: the connections that are open serve all, in turn.
                if not (mysql_errors.is_full(error) and self._comes_back(give_up)):
                    raise

    def _comes_back(self, give_up: float) -> bool:
        """Wait until another thread has given its connection back; False if there is none."""
        me, missed = get_ident(), 0
        while not self._idle:
            in_use = any(thread != me for thread in list(self._lent.values()))
            missed = 0 if in_use else missed + 1
            if missed > 1 or monotonic() >= give_up:  # once it may be just on its way to somebody
                return False
            sleep(PAUSE)
        return True
