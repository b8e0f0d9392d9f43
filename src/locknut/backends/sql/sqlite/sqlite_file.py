"""One connection to the database file: opened when it is needed, used by one thread at a time.

A connection must not be in two processes. SQLite notes for the whole process which locks it has on
a file; a forked child inherits the notes without the locks, and even a connection of its own goes
by them: it would write to a log that its parent has deleted. So before a fork all connections are
closed, and the next command opens them again, in parent and child.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar
from weakref import WeakSet

from locknut.backends.sql.sql_table import Call, Rows
from locknut.backends.sql.sqlite import database_file, failures
from locknut.backends.sql.sqlite.file_clock import FileClock
from locknut.backends.sql.sqlite.settings import Settings
from locknut.backends.sql.table_port import GiveBack, Take
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.cpython import members
from locknut.runtimes.threads import Guard

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
FIRST_PAUSE: Final = 0.0003
LONGEST_PAUSE: Final = 0.01
"""Seconds between two attempts to write while somebody else does."""


class SqliteFile:
    """The connection of one backend."""

    def __init__(self, settings: Settings, now: Callable[[], float]):
        self._settings = settings
        self._passing = [settings.statements.beat, settings.statements.extend]
        """What need not outlive a power failure: it ends all processes of the machine, and with
        them every hold that is renewed. No lock depends on its history either."""
        if settings.history:
            self._passing += settings.history_statements.add, settings.history_statements.drop
        self._clock = FileClock(now)
        self._connection: sqlite3.Connection | None = None
        self._path = os.fsencode(settings.path)  # once, and not at each look
        self._device = self._inode = -1
        self._until = 0.0
        """Until when the command that is being done may wait."""
        self._closed = False
        self.guard = Guard()
        _all.add(self)

    def ask(self, calls: Sequence[Call], limit: float) -> list[Rows]:
        """The rows of each call. Several that write are one transaction: it costs no more than
        one of them.
        """
        if not calls:
            return []
        if len(calls) == 1:
            (call,) = calls
            return [self._as_fit(calls, limit, lambda connection: self._rows(connection, call))]
        return self._as_fit(calls, limit, lambda connection: self._each(connection, calls))

    def say(self, statements: tuple[str, ...], wanted: Take | GiveBack, limit: float) -> Rows:
        """What `ask` does with one call that waits for the disk: the usual case, in few steps."""
        until = time.monotonic() + limit
        try:
            if not self.guard.acquire(timeout=limit):
                raise self._crowded()
            values = wanted._asdict()
            rows = self._at_once(statements, values)
            if rows is not None:
                return rows
            call = Call(statements, values)
            return self._done(lambda connection: self._rows(connection, call), until)
        finally:
            try:  # noqa: SIM105 -- as in `_alone`
                self.guard.release()
            except RuntimeError:
                pass

    def _at_once(self, statements: tuple[str, ...], values: dict[str, object]) -> Rows | None:
        """The rows; None if nothing was done, because it takes more: to open the file, or to wait
        for somebody else who writes.
        """
        connection = self._connection
        if connection is None or not self._leads_here():
            return None
        try:
            for statement in statements:
                values["now"] = self._clock.read()
                rows = connection.execute(statement, values).fetchall()
                if rows:
                    return rows
        except sqlite3.Error as error:
            if failures.primary_code(error) in failures.BUSY or failures.table_is_missing(error):
                return None
            self._recover(error)
            raise failures.translated(error, self._settings.path) from error
        except BaseException:
            self.drop()
            raise
        finally:
            if self._closed:
                self.drop()
        return ()

    def _as_fit(self, calls: Sequence[Call], limit: float, work: Work[T]) -> T:
        """Some need not wait for the disk."""
        if calls[0].statements in self._passing:
            return self._alone(limit, lambda connection: self._without_disk(connection, work))
        return self._alone(limit, work)

    def _each(self, connection: sqlite3.Connection, calls: Sequence[Call]) -> list[Rows]:
        reads = all(call.statements[0].startswith("SELECT") for call in calls)
        self._said(connection, "BEGIN" if reads else "BEGIN IMMEDIATE", {})
        found = [self._rows(connection, call) for call in calls]
        connection.execute("COMMIT")
        return found

    def _without_disk(self, connection: sqlite3.Connection, work: Work[T]) -> T:
        """Committed for all processes, but without waiting for the disk; the next commit that does
        waits for this one too.
        """
        connection.execute("PRAGMA synchronous = NORMAL")
        try:
            return work(connection)
        except sqlite3.Error:
            self.drop()  # in a transaction the setting could not be put back
            raise
        finally:
            if self._connection is not None:
                connection.execute("PRAGMA synchronous = FULL")

    def ask_all(
        self, calls: Sequence[Call], good: Callable[[list[Rows]], bool], limit: float
    ) -> bool:
        """In one transaction, which is undone unless the answers are good."""

        def work(connection: sqlite3.Connection) -> bool:
            self._said(connection, "BEGIN IMMEDIATE", {})
            keep = good([self._rows(connection, call) for call in calls])
            connection.execute("COMMIT" if keep else "ROLLBACK")
            return keep

        return self._as_fit(calls, limit, work)

    def _rows(self, connection: sqlite3.Connection, call: Call) -> Rows:
        for statement in call.statements:
            rows = self._said(connection, statement, call.arguments)
            if rows:
                return rows
        return ()

    def _said(
        self, connection: sqlite3.Connection, statement: str, arguments: Mapping[str, object]
    ) -> Rows:
        """Wait for other writers. SQLite would sleep for longer each time, up to a tenth of a
        second, and a lock would be on its way for as long; most of them write for a millisecond.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                said = connection.execute(statement, {**arguments, "now": self._clock.read()})
                return said.fetchall()
            except sqlite3.OperationalError as error:
                left = self._until - time.monotonic()
                if failures.primary_code(error) not in failures.BUSY or left <= 0:
                    raise
            time.sleep(min(pause, left))
            pause = min(LONGEST_PAUSE, pause * 1.5)

    def _alone(self, limit: float, work: Work[T]) -> T:
        """Do it on the connection, which nobody else uses meanwhile."""
        until = time.monotonic() + limit
        try:
            if not self.guard.acquire(timeout=limit):
                raise self._crowded()
            return self._done(work, until)
        finally:
            # No call before the release: after it an interrupt (Ctrl-C) would leave us inside.
            try:  # noqa: SIM105 -- that would be a call
                self.guard.release()
            except RuntimeError:
                pass  # it was not to be had

    def _crowded(self) -> BackendUnavailable:
        message = f"other threads of this process used {self._settings.path} for too long"
        return BackendUnavailable(message, backend="sqlite")

    def _done(self, work: Work[T], until: float) -> T:
        try:
            try:
                return work(self._ready(until))
            except sqlite3.OperationalError as error:
                if not failures.table_is_missing(error):
                    raise
            self.drop()  # opening makes the table that somebody has dropped
            return work(self._ready(until))
        except sqlite3.Error as error:
            self._recover(error)
            raise failures.translated(error, self._settings.path) from error
        except BaseException:
            self.drop()
            raise
        finally:
            if self._closed:
                self.drop()

    def _recover(self, error: sqlite3.Error) -> None:
        """The connection goes on only if it is sure to be as it was before."""
        if self._connection is not None and failures.undone(error):
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                return
        self.drop()

    def _ready(self, until: float) -> sqlite3.Connection:
        """The connection. It waits for other writers for as long as there is time."""
        connection = self._connection
        if connection is None or not self._leads_here():
            self.drop()
            connection = self._open(until)
        self._until = until
        return connection

    def _leads_here(self) -> bool:
        """Whether the path leads to the file that is open: else others take their locks
        elsewhere.
        """
        try:
            about = os.stat(self._path)
        except OSError:
            return False
        return about.st_ino == self._inode and about.st_dev == self._device

    def _open(self, until: float) -> sqlite3.Connection:
        path = self._settings.path
        if _inherited:
            message = f"forked in the middle of a command: {path} cannot be used in this process"
            raise BackendError(message, backend="sqlite")
        self._connection = made = database_file.connect(self._settings, self._clock, until)
        made.execute("PRAGMA busy_timeout = 0")
        about = os.stat(path)
        self._device, self._inode = about.st_dev, about.st_ino
        return made

    def drop(self) -> None:
        """Close the connection; the next command opens another."""
        used, self._connection = self._connection, None
        if used is not None:
            with suppress(sqlite3.Error):
                used.close()

    def close(self) -> None:
        """For good, though a last release may still come."""
        with self.guard:
            self._closed = True
            self.drop()

    def dropped(self) -> None:
        """From anywhere, a finalizer included: what is in use just now is closed by its user."""
        self._closed = True
        if self.guard.inside():
            return
        try:
            if self.guard.acquire(blocking=False):
                self.drop()
        finally:
            try:  # noqa: SIM105 -- as above
                self.guard.release()
            except RuntimeError:
                pass

    def pause(self) -> bool:
        """Before a fork: close, and let nobody in; False if a command cannot be waited for."""
        if self.guard.inside() or not self.guard.acquire(timeout=self._settings.limit + 1):
            return False
        self.drop()
        return True

    def forked(self) -> sqlite3.Connection | None:
        """In a forked child: begin anew; what is returned was left open, and is the parent's."""
        left, self._connection = self._connection, None
        self.guard = Guard()
        return left


_all: WeakSet[SqliteFile] = WeakSet()
_paused: list[SqliteFile] = []
_inherited: list[sqlite3.Connection] = []
"""What a child must neither use nor close: it is kept for ever."""


def _before() -> None:
    _paused.extend(each for each in members(_all) if each.pause())


def _in_parent() -> None:
    while _paused:
        _paused.pop().guard.release()


def _in_child() -> None:
    _paused.clear()
    _inherited.extend(left for each in members(_all) if (left := each.forked()) is not None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
