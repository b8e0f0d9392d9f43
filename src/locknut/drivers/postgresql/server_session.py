"""A session with the server: how it is opened, what is settled in it first, how it is left.

Opening blocks: names are looked up, keys and password files are read. So both colours let a thread
do it (`session_pool`), and wait for that.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import pq

from locknut.drivers.postgresql import exchange, sqlstates
from locknut.drivers.postgresql.exchange import READ, WRITE, Call, Row, Steps, T
from locknut.drivers.postgresql.host_lookup import looked_up
from locknut.drivers.postgresql.primary import Primary
from locknut.drivers.postgresql.settings import Settings
from locknut.errors import LocknutError
from locknut.runtimes import sockets
from locknut.runtimes.clock import now

_EVENTS: Final = {
    READ: select.POLLIN,
    WRITE: select.POLLOUT,
    READ | WRITE: select.POLLIN | select.POLLOUT,
}
_GREETING: Final = (
    "SELECT pg_backend_pid(), pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"
)
_TIMELINE: Final = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
_PLANS: Final = (
    "SET default_transaction_isolation = 'read committed'; SET jit = off; "
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
    "SET plan_cache_mode = force_generic_plan"
)
"""Every statement of ours goes by the primary key, in the order of the keys it was given, whatever
the server thinks of a table that was never analyzed."""
_IDLE_FROM: Final = 140000
"""The version from which on a server may end idle sessions (`idle_session_timeout`)."""


class Session:
    """One connection. Its user has it alone; after any doubt it is closed."""

    def __init__(self, connection: pq.abc.PGconn, settings: Settings):
        self.connection = connection
        self.settings = settings
        self.pooled = False
        self.number = 0
        """By which the server knows it."""
        self.epoch = 0
        self.lent_to: object = True
        """Who has it: a wish, or who opened it; None if it is idle, or not the pool's any more."""
        self.used = now()
        self._known: set[bytes] = set()
        self._poll = select.poll()
        connection.nonblocking = 1
        self.fd = connection.socket
        self._frame = Call(_limits(settings, local=True), {})

    def ask(self, calls: Sequence[Call]) -> Steps[list[list[Row]]]:
        """In one transaction and one round trip."""
        if self.pooled:
            return self._ask_framed(calls)
        return exchange.prepared(self.connection, self._known, calls)

    def ask_apart(self, calls: Sequence[Call]) -> Steps[list[list[Row]]]:
        """In one round trip, each committed before the next; not through a proxy."""
        return exchange.prepared(self.connection, self._known, calls, apart=True)

    def _ask_framed(self, calls: Sequence[Call]) -> Steps[list[list[Row]]]:
        _, *answers = yield from exchange.framed(self.connection, [self._frame, *calls])
        return answers

    def drive(self, steps: Steps[T], until: float) -> T:
        """Run an exchange on this thread. TimeoutError, if that is the time before its end."""
        try:
            wanted = next(steps)
            while True:
                wanted = steps.send(self._wait(wanted, until))
        except StopIteration as done:
            result: T = done.value
            return result

    def _wait(self, wanted: int, until: float) -> int:
        left = until - now()
        self._poll.register(self.fd, _EVENTS[wanted])
        ready = self._poll.poll(max(0.0, left * 1000) + 0.5)
        if not ready:
            raise TimeoutError("the server did not answer in time")
        return WRITE if ready[0][1] == select.POLLOUT else READ

    def alive(self) -> bool:
        """Whether the server is silent, as it is while nobody asks; its last words are read, too,
        when it hangs up.
        """
        self._poll.register(self.fd, select.POLLIN)
        return not self._poll.poll(0)

    def close(self) -> None:
        """It is said to the server, and nothing is waited for."""
        self.connection.finish()


def open_session(settings: Settings, primary: Primary) -> Session:
    """A session with the first of the servers that takes writes; the last one that did is asked
    first.
    """
    failed: LocknutError | None = None
    until, many, first = now() + settings.connect_limit, len(settings.ways), primary.way
    for turn in range(many):
        number = (first + turn) % many
        left = (until - now()) / (many - turn)  # a silent one leaves some to others
        try:
            session = _connected(settings, settings.ways[number], now() + max(left, 0.05))
        except (psycopg.Error, OSError, UnicodeError) as error:
            failed = sqlstates.unreachable(settings, _words(error))
            continue
        try:
            if _settle(session, primary, now() + max(left, 0.05)):
                primary.way = number
                return session
            failed = sqlstates.read_only(settings)
        except (psycopg.Error, OSError, exchange.Refused) as error:
            failed = sqlstates.unreachable(settings, _words(error))
        except BaseException:
            session.close()
            raise
        session.close()
    raise failed or sqlstates.unreachable(settings, "the URL names no server")


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _connected(settings: Settings, way: bytes, until: float) -> Session:
    connection = pq.PGconn.connect_start(looked_up(way, until - now()))
    noted, poll = -1, select.poll()
    while True:
        if connection.status == pq.ConnStatus.BAD:
            break
        if connection.socket != noted:  # one for each address of the host
            noted = connection.socket
            sockets.note_descriptor(noted, connection)
        status = connection.connect_poll()
        if status == pq.PollingStatus.OK:
            return Session(connection, settings)
        if status == pq.PollingStatus.FAILED:
            break
        poll = select.poll()
        reading = status == pq.PollingStatus.READING
        poll.register(connection.socket, select.POLLIN if reading else select.POLLOUT)
        if not poll.poll(max(0.0, until - now()) * 1000):
            connection.finish()
            raise TimeoutError("no answer in time")
    reason = connection.get_error_message()
    connection.finish()
    raise psycopg.OperationalError(reason)


def _settle(session: Session, primary: Primary, until: float) -> bool:
    """Whether it takes writes; then everything is settled as the statements want it."""
    settings, connection = session.settings, session.connection
    ((pid, refuses_writes),) = session.drive(exchange.plain(connection, _GREETING), until)
    session.number = pid
    if refuses_writes:
        return False
    timeline = ""
    if len(settings.ways) > 1:
        with suppress(exchange.Refused):  # not every database of this protocol has timelines
            ((timeline,),) = session.drive(exchange.plain(connection, _TIMELINE), until)
    if not primary.reached(connection.host + b":" + connection.port, timeline):
        raise OSError("the server was succeeded by another one, and does not know it")
    session.epoch = primary.epoch
    # A proxy that lends sessions invents the number that a client is told at its start.
    found = "transaction" if primary.pooled or pid != connection.backend_pid else "session"
    session.pooled = (settings.pool_mode or found) == "transaction"
    if session.pooled:
        primary.is_pooled()
        return True
    session.drive(exchange.plain(connection, _PLANS), until)
    if connection.server_version >= _IDLE_FROM:
        session.drive(exchange.plain(connection, "SET idle_session_timeout = 0"), until)
    session.drive(
        exchange.prepared(connection, set(), [Call(_limits(settings, local=False), {})]), until
    )
    session.used = now()
    return True


def _limits(settings: Settings, *, local: bool) -> exchange.Statement:
    """What nobody waits for any more is not done late, and what is answered is on the disk."""
    wide = "true" if local else "false"
    limit = int(settings.limit * 1000)
    return exchange.statement(
        f"SELECT set_config('statement_timeout', '{limit}', {wide}), "
        f"set_config('lock_timeout', '{limit * 3 // 4}', {wide}), "
        "set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
        f"WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, {wide})"
    )
