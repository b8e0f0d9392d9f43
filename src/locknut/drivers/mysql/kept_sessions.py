"""Connections that somebody keeps for long: at most so many, and used again when given back.

Everything here blocks the calling thread, for no longer than its caller can wait.
"""

from __future__ import annotations

import pymysql

from locknut.drivers.connection_places import Place, Places
from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.sessions import READ_COMMITTED, Session
from locknut.drivers.mysql.settings import Settings
from locknut.errors import BackendUnavailable
from locknut.runtimes.deadlines import time_left


class KeptSessions:
    """For many threads."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.isolation = READ_COMMITTED
        self.forked()

    def forked(self) -> None:
        """Begin anew. What was inherited is let go of without a word."""
        for session in (*self.__dict__.get("_idle", ()), *self.__dict__.get("_lent", ())):
            session.abandon()
        self._idle: list[Session] = []
        self._lent: dict[Session, Place] = {}
        self._closed = False
        self._places = Places(self.settings.connections)

    def take(self) -> Session:
        """One for the caller alone."""
        place = Place()
        try:
            if not self._places.occupy(place, self.left()):
                raise self.all_taken()
            session = self._session()
            self._lent[session] = place  # no call from here on
        except BaseException:
            self._places.vacate(place)
            raise
        return session

    def all_taken(self) -> BackendUnavailable:
        message = (
            f"{self.settings.address}: all {self.settings.connections} connections hold locks or "
            "wait for some; more are allowed with ?connections="
        )
        return BackendUnavailable(message, backend=self.settings.scheme)

    def _session(self) -> Session:
        while self._idle:
            try:
                session = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if session.alive():
                return session
            session.close()
        try:
            return Session(self.settings, self.left(), self.isolation)
        except pymysql.MySQLError as error:
            raise mysql_errors.translated(error, self.settings) from error

    def left(self) -> float:
        """Seconds that the caller can wait."""
        try:
            return time_left(self.settings.limit)
        except TimeoutError as error:
            message = f"no time is left to ask {self.settings.address}"
            raise BackendUnavailable(message, backend=self.settings.scheme) from error

    def give_back(self, session: Session) -> None:
        """It is in order, and has nothing any more."""
        place = self._lent.get(session)
        if place is None:
            return
        if self._closed:
            session.close()
        else:
            self._idle.append(session)
        self._leave(session, place)

    def drop(self, session: Session) -> None:
        """Without a word: it may be in the middle of something."""
        session.hang_up()
        place = self._lent.get(session)
        if place is not None:
            self._leave(session, place)

    def _leave(self, session: Session, place: Place) -> None:
        """Can be asked for again, as long as the session is noted."""
        self._places.vacate(place)
        self._lent.pop(session, None)

    def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for session in idle:
            session.close()
