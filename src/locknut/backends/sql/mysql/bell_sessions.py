"""Connections on which bells hang: named locks of the server, held from now until they are freed.

A named lock belongs to the connection that took it, and is free when that ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Final

import pymysql

from locknut.backends.sql.table_port import ANY
from locknut.drivers.mysql import mysql_errors
from locknut.drivers.mysql.sessions import Rows, Session
from locknut.drivers.mysql.settings import Settings

SLICE: Final = 1
"""Seconds, a whole number of them: MySQL rounds fractions. So long a connection waits for a bell at
a time, and cannot be asked anything else meanwhile."""

_GIVEN_UP: Final = frozenset({1213, mysql_errors.INTERRUPTED, 3058})
"""A wait that was interrupted, or would have been a deadlock; MariaDB and MySQL number it
differently."""
_NOT_RUNG: Final = frozenset({1094, 1095})
"""There is no such connection, or it is another user's."""
_SHOWN: Final = 12


def shown(claim_id: str) -> str:
    """The digits of a claim id that its bell is called by: enough to know it by, and as many as an
    answer of the table has room for.
    """
    return claim_id[:_SHOWN]


def bell(claim_id: str) -> str:
    """In lower case and less than 64 characters: MySQL allows no more, and minds no case."""
    return f"locknut:{shown(claim_id)}"


class BellSession:
    """One connection; it either waits for one bell, or can hang up and free others at once."""

    def __init__(self, settings: Settings):
        self._limit = settings.limit
        self._session = Session(settings, settings.limit)
        self.hung: set[str] = set()
        self.owed: set[str] = set()
        """Bells to be freed as soon as it does not wait any more."""
        self.waits = False
        self._own = ""
        """The claim that waits there, or was the last that did."""
        self.used = monotonic()
        """When it was last of any use."""
        self._number, again = (self._ask("SELECT CONNECTION_ID()")[0][0] for _ in range(2))
        self.multiplexed = self._number != again
        """Whether something between us and the server sends each packet where it likes."""

    def fileno(self) -> int:
        return self._session.fileno()

    def alive(self) -> bool:
        """Whether the server has not hung up; only for one that does not wait."""
        return self._session.alive()

    def hang(self, claim_ids: list[str]) -> None:
        """Those that can be had at once: a follower may just touch one, and a connection that the
        server has not ended yet may have many.
        """
        wanted = ", ".join(f"GET_LOCK('{bell(each)}', 0)" for each in claim_ids)
        taken = self._ask(f"SELECT {wanted}")
        self.hung |= {each for each, got in zip(claim_ids, taken[0], strict=True) if got == 1}

    def free(self, claim_ids: Iterable[str]) -> None:
        if self.waits:
            self.owed.update(claim_ids)
            return
        freed = [each for each in claim_ids if each in self.hung]
        if freed:
            self.hung.difference_update(freed)
            self._ask("DO " + ", ".join(f"RELEASE_LOCK('{bell(each)}')" for each in freed))

    def give_back(self, claim_id: str, statement: str, limit: float) -> Rows:
        """Say a statement that frees this bell, if it does anything."""
        (rows,) = self._session.run(statement, limit)
        self.used = monotonic()
        if rows:
            self.hung.discard(claim_id)
        return rows

    def listen(self, own: str, behind: str) -> None:
        """Hang the claim's own bell, and wait for the other one, or for a ring; `heard` reads what
        came of it.
        """
        hanging = "1" if own in self.hung else f"GET_LOCK('{bell(own)}', {SLICE})"
        other = f"'{bell(behind)}'"
        waiting = f"GET_LOCK({other}, {SLICE}), RELEASE_LOCK({other})"
        if behind == ANY:
            waiting = f"SLEEP({SLICE}), 0"
        self._session.send(f"SELECT {hanging}, {waiting}", self._limit + SLICE)
        self.waits, self._own = True, own

    def heard(self) -> bool:
        """Whether the other bell is free, or somebody rang."""
        self.waits = False
        self.used = monotonic()
        try:
            own, other, _ = self._session.receive([])[0][0]
        except pymysql.MySQLError as error:
            if mysql_errors.code_of(error) not in _GIVEN_UP:
                raise
            own, other = 1, int(mysql_errors.code_of(error) == mysql_errors.INTERRUPTED)
        if own == 1:
            self.hung.add(self._own)
        owed, self.owed = self.owed, set()
        self.free(owed)
        return bool(other == 1)

    def ring(self, claim_id: str) -> bool:
        """Interrupt the connection on which that bell hangs just now: it waits. False: it does not
        hang, or is another user's.
        """
        try:
            self._ask(f"KILL QUERY IS_USED_LOCK('{bell(claim_id)}')")
        except pymysql.MySQLError as error:
            if mysql_errors.code_of(error) not in _NOT_RUNG:
                raise
            return False
        return True

    def interrupt(self, session: BellSession) -> None:
        """Have another one of our own connections stop waiting: every user may do that. Not one
        that has its number since the server started anew: our own bell does not hang there.
        """
        number = session._number
        asked = f"KILL QUERY IF(IS_USED_LOCK('{bell(session._own)}') = {number}, {number}, 0)"
        try:
            self._ask(asked)
        except pymysql.MySQLError as error:
            if mysql_errors.code_of(error) not in _NOT_RUNG:
                raise

    def _ask(self, packet: str) -> Rows:
        self.used = monotonic()
        return self._session.run(packet, self._limit)[0]

    def close(self) -> None:
        self._session.hang_up() if self.waits else self._session.close()

    def hang_up(self) -> None:
        self._session.hang_up()

    def abandon(self) -> None:
        self._session.abandon()
