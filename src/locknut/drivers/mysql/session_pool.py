"""The connections of one client: at most so many, kept for the next command, left when in doubt.

Everything here blocks the calling thread, for no longer than its caller can wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from time import monotonic, sleep
from typing import Final, TypeVar

import pymysql

from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.connection_places import Place, Places
from locknut.drivers.mysql.sessions import READ_COMMITTED, REPEATABLE_READ, Rows, Session
from locknut.drivers.mysql.settings import Settings
from locknut.errors import BackendUnavailable, LocknutError
from locknut.runtimes.deadlines import time_left

T = TypeVar("T")
Work = Callable[[Session, Callable[[], float]], T]
"""What is done with a session; the second argument says how long it may take from now on."""
TRIES: Final = 5
"""How often a statement is sent that was undone by a lock wait or a deadlock."""
IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle connection is looked at before it is used: a server that restarted
has hung up, and a release that is sent to nobody is a release in doubt."""


PAUSE: Final = 0.005
"""Seconds between two looks for a connection that comes back, where the server gives no other."""


class SessionPool:
    """For many threads. A thread in the middle of a command may come in again: see `inside`."""

    def __init__(self, settings: Settings, table: str, create: str):
        self.settings = settings
        self._table = table
        self._create = create
        self.forked()

    def forked(self) -> None:
        """Begin anew. What was inherited is let go of without a word."""
        for session in self.__dict__.get("_idle", ()):
            session.abandon()
        for session in list(self.__dict__.get("_lent", ())):
            session.abandon()
        self._idle: list[Session] = []
        self._lent: dict[Session, int] = {}
        """What is in use, and by which thread."""
        self._busy: set[int] = set()
        self._closed = False
        self._isolation = READ_COMMITTED
        self._places = Places(self.settings.connections)

    def inside(self) -> bool:
        """Whether this thread is in the middle of a command, and there is no further place."""
        return get_ident() in self._busy and self._places.all_taken()

    def ask(self, statements: Sequence[str]) -> list[Rows]:
        """In one packet, each by itself. What was undone is tried again, and what was done is not:
        a second release would find nothing.
        """
        answers: list[Rows] = []

        def work(session: Session, left: Callable[[], float]) -> list[Rows]:
            return session.run(";".join(statements[len(answers) :]), left(), answers)

        return self._with_session(work)

    def ask_all(self, statements: Sequence[str], good: Callable[[list[Rows]], bool]) -> bool:
        """In one transaction, which is undone unless the answers are good."""
        packet = ";".join(("START TRANSACTION", *statements))

        def work(session: Session, left: Callable[[], float]) -> bool:
            _, *answers = session.run(packet, left())
            fine = good(answers)
            session.run("COMMIT" if fine else "ROLLBACK", left())
            return fine

        return self._with_session(work, transaction=True)

    def _with_session(self, work: Work[T], *, transaction: bool = False) -> T:
        me, outer, place = get_ident(), get_ident() in self._busy, Place()
        try:
            if not self._places.occupy(place, self._left()):
                raise self.all_busy()
            self._busy.add(me)
            for left in range(TRIES, 0, -1):
                try:
                    return self._once(work, transaction=transaction)
                except pymysql.MySQLError as error:
                    self._learn(error, left)
        finally:
            try:
                self._leave(place, None if outer else me)
            except BaseException:  # an interrupt (Ctrl-C): it is finished all the same
                self._leave(place, None if outer else me)
                raise
        raise AssertionError("the last try raises")

    def _leave(self, place: Place, thread: int | None) -> None:
        """Can be asked for again."""
        if thread is not None:
            self._busy.discard(thread)
        self._places.vacate(place)

    def all_busy(self) -> BackendUnavailable:
        """Nothing was sent."""
        message = (
            f"all {self.settings.connections} connections to {self.settings.address} are busy; "
            "more are allowed with ?connections="
        )
        return BackendUnavailable(message, backend=self.settings.scheme)

    def _once(self, work: Work[T], *, transaction: bool) -> T:
        session = self._session()
        self._lent[session] = get_ident()
        try:
            result = work(session, self._left)
        except BaseException as error:
            # Whatever is in doubt, or still has a transaction, is not used again.
            if transaction or self._closed or not mysql_errors.is_answer(error):
                session.close()
            else:
                self._idle.append(session)
            if isinstance(error, pymysql.MySQLError) and not mysql_errors.is_answer(error):
                self._forget()  # after a restart all the others are dead, too
            raise
        else:
            if self._closed:
                session.close()
            else:
                self._idle.append(session)
            return result
        finally:
            self._lent.pop(session, None)  # not before it is idle: somebody may look for it

    def _learn(self, error: pymysql.MySQLError, tries_left: int) -> None:
        """Raise what it comes to, unless trying again is worth it: nothing was done then."""
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

    def translated(self, error: pymysql.MySQLError) -> LocknutError:
        return mysql_errors.translated(error, self.settings, self._table)

    def create_table(self) -> None:
        """Where there is none."""
        try:
            self._once(lambda session, left: session.run(self._create, left()), transaction=False)
        except pymysql.MySQLError as error:
            raise self.translated(error) from error

    def _session(self) -> Session:
        give_up = monotonic() + self._left()
        while True:
            kept = self._kept()
            if kept is not None:
                return kept
            try:
                return Session(self.settings, self._left(), self._isolation)
            except pymysql.MySQLError as error:
                # The server may be full: the connections that are open serve all, in turn.
                if not (mysql_errors.is_full(error) and self._comes_back(give_up)):
                    raise

    def _kept(self) -> Session | None:
        while self._idle:
            try:
                session = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if monotonic() - session.used < IDLE_UNCHECKED or session.alive():
                return session
            session.close()
        return None

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

    def _left(self) -> float:
        try:
            return time_left(self.settings.limit)
        except TimeoutError as error:
            message = f"no time is left to ask {self.settings.address}"
            raise BackendUnavailable(message, backend=self.settings.scheme) from error

    def hung_up(self) -> bool:
        """Whether the server has cut an idle connection."""
        cut = [each for each in list(self._idle) if not each.alive()]
        if cut:
            self._forget()
        return bool(cut)

    def _forget(self) -> None:
        idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def close(self) -> None:
        """A last command may still come: it connects anew, and hangs up again."""
        self._closed = True
        self._forget()
