"""One connection: set up as we need it, one packet of statements at a time, each with its limit."""

from __future__ import annotations

import math
import os
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT, COMMAND, CR

from locknut.drivers.mysql import prepared_statements
from locknut.drivers.mysql.settings import Settings
from locknut.runtimes import sockets

Rows = Sequence[Sequence[Any]]
UNTOLD: Final[Rows] = type("Untold", (tuple,), {})()
"""In place of no rows: rows were written, and yet no number came. So it is where a statement gives
none; or where a trigger on the table writes to another one, which keeps it from coming.
"""
LOCK_WAIT: Final = 1
"""Seconds that a statement waits for a row that others keep locked. The server's own default is 50,
which is longer than any caller of ours waits for an answer."""
LAST_WORD: Final = 0.1
"""Seconds."""
_INHERITED: Final[list[Any]] = []
READ_COMMITTED: Final = "READ COMMITTED"
REPEATABLE_READ: Final = "REPEATABLE READ"
_SETUP: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', SESSION autocommit = 1, "
    f"SESSION innodb_lock_wait_timeout = {LOCK_WAIT}"
)


class Session:
    """Connected when made. After any doubt it is closed, and never connects again by itself."""

    __slots__ = ("_driver", "keeps", "kept", "number", "used")

    def __init__(self, settings: Settings, limit: float, isolation: str = READ_COMMITTED):
        whole = math.ceil(limit)  # PyMySQL wants no fractions here
        self._driver: Any = pymysql.connect(
            **settings.driver,
            charset="utf8mb4",
            autocommit=None,
            client_flag=CLIENT.MULTI_STATEMENTS,
            connect_timeout=whole,
            read_timeout=limit,
            write_timeout=limit,
            program_name="locknut",
            defer_connect=True,
        )
        self._driver.connect_timeout = limit
        self._driver.connect(_opened(self._driver, limit))
        self.used = monotonic()
        self.number = 0
        """By which the server knows it, if somebody has asked."""
        self.keeps = True
        """Whether the server keeps statements for it."""
        self.kept: dict[str, int] = {}
        """Those, by their numbers."""
        try:
            self.run(f"{_SETUP};SET SESSION TRANSACTION ISOLATION LEVEL {isolation}", limit)
        except BaseException:
            self.close()
            raise

    def run(self, packet: str, limit: float, answers: list[Rows] | None = None) -> list[Rows]:
        """Send statements, and append what each answers: its rows; or, of one that writes, the
        number that it gave to LAST_INSERT_ID(), as a row if it is not 0. One that fails ends them.
        """
        self.send(packet, limit)
        return self.receive([] if answers is None else answers)

    def run_kept(self, statement: str, values: Sequence[int | bytes], limit: float) -> Rows:
        """Run one statement that writes, with values for its marks, which the server keeps for this
        connection from the first time on. The answer is that of `run`.
        """
        driver = self._driver
        driver._read_timeout = driver._write_timeout = limit
        number = self.kept.get(statement)
        if number is None:
            number = self.kept[statement] = prepared_statements.prepare(driver, statement)
        prepared_statements.execute(driver, number, values)
        (rows,) = self.receive([])
        return rows

    def send(self, packet: str, limit: float) -> None:
        driver = self._driver
        driver._read_timeout = driver._write_timeout = limit
        driver._execute_command(COMMAND.COM_QUERY, packet)

    def receive(self, answers: list[Rows]) -> list[Rows]:
        driver = self._driver
        more = True
        while more:
            driver._read_query_result()
            result = driver._result
            if result.rows is None:
                nothing = UNTOLD if result.affected_rows else ()
                answers.append(((result.insert_id,),) if result.insert_id else nothing)
            else:
                answers.append(result.rows)
            more = result.has_next
        self.used = monotonic()
        return answers

    def fileno(self) -> int:
        return int(self._driver._sock.fileno())

    def alive(self) -> bool:
        """Whether the server has not hung up: it has nothing to say while nobody asks."""
        if self._driver._sock is None:
            return False
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """With a last word, so that the server does not count it as an accident."""
        with suppress(pymysql.MySQLError):
            self._driver._write_timeout = LAST_WORD
            self._driver.close()

    def hang_up(self) -> None:
        """Without a word."""
        self._driver._force_close()

    def abandon(self) -> None:
        """In a forked child, where the connection is the parent's. Another thread of the parent
        may have been reading: its reader's mutex is taken here for ever, so it is never closed.
        """
        driver = self._driver
        inherited, driver._sock = driver._sock, None
        if inherited is not None:
            _INHERITED.append(driver._rfile)
            driver._rfile = None
            with suppress(OSError):
                os.close(inherited.detach())


def _opened(driver: Any, limit: float) -> socket.socket | None:
    """A connection to the host. PyMySQL would let each of its addresses take all the time, and the
    resolver as much as it likes. None: it goes by a unix socket, and PyMySQL opens that.
    """
    if driver.unix_socket:
        return None
    try:
        made = sockets.connected((driver.host, driver.port), limit)
    except (OSError, UnicodeError) as error:
        message = f"Can't connect to MySQL server on {driver.host!r} ({error})"
        raise pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, message) from error
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        made.close()
        raise
    return made
