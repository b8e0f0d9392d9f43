"""Session mode on PostgreSQL: advisory locks, which belong to a session and to no transaction.

So the session that has them also writes the row, and each of its statements is committed by itself:
the number of a grant is not taken back when its holder dies (S13).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import psycopg

from locknut.backends.sql.demand import Demand
from locknut.backends.sql.postgresql.lock_table import (
    given_back,
    granted,
    is_of_the_past,
    seen_in,
)
from locknut.backends.sql.postgresql.table_questions import Line, PinnedQuestions, Questions
from locknut.backends.sql.statements import Statements, load
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.drivers.postgresql import sqlstates
from locknut.drivers.postgresql.exchange import READ, Call, Refused, Statement, Steps, statement
from locknut.drivers.postgresql.long_statement import LongStatement
from locknut.drivers.postgresql.server_session import Session
from locknut.drivers.postgresql.settings import NAME
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError

WAIT: Final = 60_000
"""Milliseconds for which the server waits at a time. A statement that waits keeps VACUUM from
clearing up behind it; and each end is a line in the server's log, so it is not much less."""
GATE: Final = "AND current_setting('locknut.gate') = 'true'"
KNOWN: Final = (
    "AND CASE WHEN pg_advisory_unlock_all()::text = '' THEN pg_try_advisory_lock(:gate) END"
)
"""The same within a statement on a row that is there. It may be tried twice, if somebody else
writes the row meanwhile, so here too whatever was taken is given up first. Not by AND: what stands
on both sides of it is done in the order that the server likes."""
_TRY: Final = (
    "SELECT pg_advisory_unlock_all(), set_config('locknut.gate', ({locks})::text, false), "
    "pg_backend_pid()"
)
"""Whatever an earlier try has taken is given up first: locks of one session add up."""
_GATE: Final = "pg_try_advisory_lock(:gate)"
_ENTER: Final = statement(_TRY.format(locks=_GATE))
_ENTER_READING: Final = statement(
    _TRY.format(locks=f"CASE WHEN pg_try_advisory_lock(:own) THEN {_GATE} ELSE false END")
)
_KEEP: Final = statement("SELECT pg_try_advisory_lock(:lock)")
_FREE: Final = statement("SELECT pg_advisory_unlock(:lock)")
_FREE_ALL: Final = Call(statement("SELECT pg_advisory_unlock_all()"), {})
_LOCKS: Final = (
    "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND ((classid::bigint << 32) | objid::bigint)"
)
_OWNERS: Final = statement(
    f"SELECT (classid::bigint << 32) | objid::bigint, pid {_LOCKS} = ANY (:locks) AND granted"
)
_INTERRUPT: Final = statement(
    f"SELECT pg_cancel_backend(pid) {_LOCKS} = :lock AND pid = :number::int AND NOT granted"
)
_END: Final = statement(f"SELECT pg_terminate_backend(pid) {_LOCKS} = :lock AND pid = :number::int")
_NOT_GOT: Final = sqlstates.UNDONE | {sqlstates.CANCELLED}


def number_of(lock: bytes) -> int:
    """All 64 bits that an advisory lock has."""
    return int.from_bytes(lock[:8], "big", signed=True)


class AdvisorySession:
    """A `LockSession`."""

    longest_wait: float = WAIT / 1000

    def __init__(
        self,
        session: Session,
        line: Line,
        questions: PinnedQuestions,
        say: Says,
        demand: Demand,
    ):
        self._demand = demand
        self.number = session.number
        self._session = session
        self._line = line
        self._questions = questions
        self._say = say
        self._long: LongStatement | None = None
        self.alive = session.alive

    def fileno(self) -> int:
        return self._session.fd

    async def enter(self, gate: bytes, own: bytes | None, wanted: Take) -> tuple[bool, Seen | None]:
        """By one statement, where that is likely to do; else by two, of which the second is done
        only if the first got the gate.
        """
        if self._demand.is_known(wanted.key) and wanted.mode == "e":
            arguments = {**wanted._asdict(), "gate": number_of(gate)}
            (rows,) = await self._questions.ask([Call(self._say.enter_known, arguments)])
            if rows:
                self._ensure_own(rows[0][1])
                return True, granted(wanted, rows)
        arguments = {"gate": number_of(gate)}
        asked = _ENTER
        if own is not None:
            asked, arguments["own"] = _ENTER_READING, number_of(own)
        take = self._say.take_at_gate if own is not None else self._say.take_alone_at_gate
        calls = [Call(asked, arguments), Call(take, wanted._asdict())]
        ((_, got, number),), rows = await self._questions.ask(calls)
        self._ensure_own(number)
        return got == "true", self._read_back(rows, wanted)

    def _ensure_own(self, number: object) -> None:
        if number != self.number:
            self._line.pool.primary.is_pooled()
            raise shared(self._session)

    async def take(self, wanted: Take) -> Seen | None:
        (rows,) = await self._questions.ask([Call(self._say.take, wanted._asdict())])
        return self._read_back(rows, wanted)

    def _read_back(self, rows: Sequence[Sequence[object]], wanted: Take) -> Seen | None:
        seen = seen_in(rows)
        self._demand.met(wanted, seen)
        return None if not rows or is_of_the_past(seen, wanted) else seen

    async def give_back(self, hold: GiveBack) -> Seen:
        """The row, and once that is committed the locks: who has the gate next does not wait for
        the row, but sees it as it is, and would find it held.
        """
        if hold.alone:
            calls = [Call(self._say.give_back_alone, hold._asdict()), _FREE_ALL]
            rows, _ = await self._questions.ask(calls, apart=True)
            if rows:
                return given_back(hold, rows)
        arguments = {"keys": [hold.key], "claim_ids": [hold.claim_id], "stamps": [hold.stamp]}
        calls = [Call(self._say.give_back, arguments), _FREE_ALL]
        rows, _ = await self._questions.ask(calls, apart=True)
        return seen_in([row[2:] for row in rows])

    async def keep(self, lock: bytes) -> bool:
        (((got,),),) = await self._questions.ask([Call(_KEEP, {"lock": number_of(lock)})])
        return bool(got)

    async def free(self, lock: bytes | None) -> None:
        call = _FREE_ALL if lock is None else Call(_FREE, {"lock": number_of(lock)})
        await self._questions.ask([call])

    async def wait(self, lock: bytes) -> None:
        text = (
            f"SELECT set_config('lock_timeout', '{WAIT}', true), "
            f"set_config('statement_timeout', '0', true); "
            f"SELECT pg_advisory_lock({number_of(lock)})"
        )
        try:
            self._long = LongStatement(self._session, text)
        except psycopg.Error as error:
            raise self._questions.unanswered(error) from error

    async def waited(self) -> bool | None:
        if self._long is None:
            return False
        try:
            return True if self._long.is_done() else None
        except Refused as error:
            if error.code in _NOT_GOT:
                return False
            raise self._questions.failure(error) from error
        except psycopg.Error as error:
            raise self._questions.unanswered(error) from error

    async def stopped(self, seconds: float) -> bool:
        try:
            await self._line.drive(self._session, self._end(), self._line.until(seconds))
        except Refused:
            return True  # as it was told
        except TimeoutError:
            return False
        except (psycopg.Error, OSError) as error:
            raise self._questions.unanswered(error) from error
        return True

    def _end(self) -> Steps[None]:
        while self._long is not None and not self._long.is_done():
            yield READ

    def back(self) -> None:
        self._line.pool.give_back(self._session)

    def drop(self) -> None:
        self._line.pool.drop(self._session)

    def cut(self) -> None:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)


class Says:
    """The statements of a table that a session says itself."""

    def __init__(self, statements: Statements, table: str):
        self.take = statement(statements.take[0])
        at_gate = load(NAME, table, GATE)
        self.take_at_gate = statement(at_gate.take[0])
        self.take_alone_at_gate = statement(at_gate.take_alone[0])
        self.give_back = statement(statements.give_back[0])
        self.give_back_alone = statement(statements.give_back_alone[0])
        self.enter_known = statement(load(NAME, table, KNOWN).take_known[0])


class AdvisorySessions:
    """`LockSessions` of one client, in the colour of its lines."""

    def __init__(self, line: Line, questions: Questions, statements: Statements, table: str):
        self._warm = False
        self.place = table
        self._line = line
        self._questions = questions
        self._table = table
        self._statements = statements
        self._say = Says(statements, table)
        self._demand = Demand()
        self.inside = line.inside
        self.forked = line.forked
        self.close = line.pool.close

    async def open(self) -> AdvisorySession:
        settings = self._line.pool.settings
        if not self._warm:  # renewals must not find the server full of our own locks
            await self.owners([bytes(16)])
            self._warm = True
        try:
            session = await self._line.session(self._line.until(settings.limit))
        except TimeoutError as error:
            message = (
                f"{settings.place}: all {settings.connections} connections hold locks or wait for "
                "some (connections= sets the number), or the server did not answer to a new one"
            )
            raise BackendUnavailable(message, backend=NAME) from error
        try:
            if session.pooled:
                raise shared(session)
            create = self._statements.create
            questions = PinnedQuestions(self._line, self._table, create, session)
            return AdvisorySession(session, self._line, questions, self._say, self._demand)
        except BaseException:
            self._line.pool.drop(session)
            raise

    async def owners(self, locks: Sequence[bytes]) -> dict[bytes, int]:
        by_number = {number_of(lock): lock for lock in locks}
        if not by_number:
            return {}
        (rows,) = await self._questions.ask([Call(_OWNERS, {"locks": list(by_number)})])
        return {by_number[number]: pid for number, pid in rows}

    async def interrupt(self, number: int, lock: bytes) -> None:
        await self._ask_of(_INTERRUPT, number, lock)

    async def end(self, number: int, lock: bytes) -> None:
        try:
            await self._ask_of(_END, number, lock)
        except ConfigurationError as error:
            message = (
                f"the session {number} that has this lock is another user's, and must be ended by "
                "that user, or by one that has pg_signal_backend"
            )
            raise BackendError(message, backend=NAME) from error

    async def _ask_of(self, asked: Statement, number: int, lock: bytes) -> None:
        await self._questions.ask([Call(asked, {"number": number, "lock": number_of(lock)})])


def shared(session: Session) -> ConfigurationError:
    """There is no session that a lock could belong to."""
    message = (
        f"mode=session needs sessions of its own with the server, and {session.settings.place} is "
        "a proxy that lends them for a transaction: connect to the server itself, have the proxy "
        "keep sessions and say pool_mode=session, or use mode=lease"
    )
    return ConfigurationError(message, backend=NAME)
