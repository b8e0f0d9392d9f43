"""Connections by firebirdsql, which blocks: one statement at a time, and what its errors mean."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import firebirdsql
from firebirdsql import consts, fbcore

from locknut import LocknutError, port
from locknut.backends.sql.sql_table import Rows
from locknut.backends.sql.table_port import US
from locknut.drivers.connection_pool import ConnectionPool, Limits

NO_TABLE = {335544580}
UNDONE = {335544336, 335544345, 335544349, 335544351, 335544451, 335544453, 335544510, 335544665}
"""A deadlock, a conflict of locks or updates, a wait that was too long, two that made the same row
or table: the transaction did nothing."""
REFUSED = {335544344, 335544352, 335544361, 335544472, 335544765}
"""No such database, no right to it, a wrong password; or it may only be read."""
LOST = {335544528, 335544721, 335544726, 335544727, 335544741, 335544856}
"""The server is going down, or has hung up."""
ASTRAY = 600
"""Seconds. More than that between the server's clock and ours is another time zone."""
WAIT = 1
"""Seconds for a row that others have locked: they commit in milliseconds, or stand still."""
TRANSACTION = bytes([
    *(consts.isc_tpb_version3, consts.isc_tpb_write, consts.isc_tpb_read_committed),
    *(consts.isc_tpb_rec_version, consts.isc_tpb_wait, consts.isc_tpb_lock_timeout, 1, WAIT),
])  # fmt: skip


class _Transaction(fbcore.Transaction):  # type: ignore[misc]  # not every environment has its types
    transaction_parameter_block = (TRANSACTION, TRANSACTION)


class Session:
    """One connection. In ISO 8859-1, because a key may be any bytes; all else is ASCII."""

    def __init__(self, login: dict[str, Any], limit: float):
        # Firebird 4 tells the time of this zone; 3 has the time of its server.
        self._driver: Any = firebirdsql.connect(
            **login, charset="ISO8859_1", timezone="UTC", timeout=limit
        )
        self._driver.buffer_length = 32000  # it cannot read a long description in parts
        self._socket: socket.socket = self._driver.sock._sock  # noqa: SLF001 -- it shows it nowhere
        self._transaction = _Transaction(self._driver)
        self.used = time.monotonic()

    def execute(self, statement: str, values: Sequence[object], limit: float) -> Rows:
        self._take(limit)
        cursor = fbcore.Cursor(self._transaction)
        try:
            cursor.execute(statement, values)
            rows: Rows = cursor.fetchall() or ()
        except firebirdsql.Error:  # after anything else the session is closed
            cursor.close()
            raise
        cursor.close()
        if rows and len(rows[0]) > 7 and abs(rows[0][-1] / US - time.time()) > ASTRAY:
            message = (
                "the server's clock is not in UTC: start it with TZ=UTC (in spring, local time "
            )
            message += "would end all locks an hour early)"
            raise port.ConfigurationError(message, backend="firebird")
        return rows

    def commit(self, limit: float) -> None:
        self._take(limit)
        self._transaction.commit()

    def rollback(self, limit: float) -> None:
        self._take(limit)
        self._transaction.rollback()

    def _take(self, limit: float) -> None:
        """No longer than this for the next answer."""
        self._driver.timeout = limit
        self._socket.settimeout(limit)
        self.used = time.monotonic()

    def alive(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Without a word: the server undoes what is not committed."""
        self._driver.sock = None
        self._socket.close()

    def abandon(self) -> None:
        self._driver.sock = None
        os.close(self._socket.detach())


class Pool(ConnectionPool[Session]):
    """The connections of one client."""

    errors = (firebirdsql.Error, OSError)

    def __init__(self, limits: Limits, login: dict[str, Any], create: str):
        super().__init__(limits)
        self._login = login
        self._create = create

    def _open(self) -> Session:
        return Session(self._login, self._left())

    def is_answer(self, error: BaseException) -> bool:
        codes = _codes(error)
        return bool(codes) and not codes & LOST

    def _learn(self, error: Exception, tries_left: int) -> None:
        codes = _codes(error)
        if tries_left > 1 and codes & NO_TABLE:
            with suppress(firebirdsql.Error):  # another one was faster, or we lack the right to
                self._once(self._make_table, transaction=True)
        elif tries_left == 1 or not codes & UNDONE:
            raise self._translated(error, codes) from error

    def _make_table(self, session: Session, left: Callable[[], float]) -> None:
        session.execute(self._create, (), left())
        session.commit(left())

    def _translated(self, error: Exception, codes: set[int]) -> LocknutError:
        kind: type[LocknutError] = port.BackendUnavailable
        if codes & (REFUSED | NO_TABLE) or str(error) == "Unauthorized":  # which has no code
            kind = port.ConfigurationError
        elif self.is_answer(error) and not codes & UNDONE:
            kind = port.BackendError
        return kind(f"{self.limits.address}: {str(error).strip()}", backend="firebird")


def _codes(error: BaseException) -> set[int]:
    codes: set[int] = getattr(error, "gds_codes", set())
    return codes
