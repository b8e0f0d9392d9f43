"""What is looked at to see whether locks are safe on a PostgreSQL: its settings, what is between us
and it, who follows it, and the table.

Sessions of ours settle some things for themselves, so nothing is found about these: the isolation,
that a commit waits for the disk, that idle sessions stay. Every user may read what is asked here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from locknut.backends.sql import table_rights
from locknut.backends.sql.postgresql.table_questions import Questions
from locknut.core import findings
from locknut.core.durations import spell
from locknut.core.findings import Check, NotKnown, fail, judged, ok, warn
from locknut.core.values import Finding
from locknut.drivers.postgresql.exchange import Call, statement
from locknut.drivers.postgresql.primary import Primary

_OLDEST: Final = 120000
_CROWDED: Final = 0.8
_SHORT: Final = 30_000
"""Milliseconds: the default ttl."""
_SETTINGS: Final = """
SELECT name, reset_val FROM pg_settings WHERE name IN ('server_version', 'server_version_num',
'fsync', 'autovacuum', 'max_connections', 'superuser_reserved_connections',
'synchronous_standby_names', 'synchronous_commit', 'idle_in_transaction_session_timeout')
"""
_CLIENTS: Final = "SELECT sum(numbackends) FROM pg_stat_database"  # others' own are hidden
_LIMITS: Final = """
SELECT rolconnlimit, datconnlimit,
    (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user),
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())
FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()
"""
_FOLLOWERS: Final = """
SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication
"""
_CLOCK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_TABLE: Final = """
SELECT relpersistence::text, coalesce(array_to_string(reloptions, ','), '')
FROM pg_class WHERE oid = to_regclass(:name)
"""


def checks(questions: Questions, primary: Primary, table: str) -> list[Check]:
    """At the server that takes our writes; `table` is quoted."""
    asked = _Asked(questions, table)

    async def settings() -> list[Finding]:
        known = dict(await asked.rows(_SETTINGS))
        judges = {
            "postgresql-version": partial(_version, known),
            "postgresql-durability": partial(_durability, known),
            "postgresql-vacuum": partial(_vacuum, known),
            "postgresql-transactions": partial(_transactions, known),
        }
        return [judged(code, judge) for code, judge in judges.items()]

    codes = ("version", "durability", "vacuum", "transactions")
    return [
        Check(("clock",), asked.clock),
        Check(tuple(f"postgresql-{each}" for each in codes), settings),
        Check(("postgresql-connections",), asked.connections),
        Check(("postgresql-replicas",), asked.replicas),
        Check(("postgresql-pool",), partial(_pool, primary)),
        Check(("postgresql-table",), asked.table),
    ]


class _Asked:
    """What has to be asked for, beyond the settings."""

    def __init__(self, questions: Questions, table: str):
        self._questions = questions
        self._table = table

    async def rows(self, text: str, **arguments: object) -> list[tuple[Any, ...]]:
        (found,) = await self._questions.ask([Call(statement(text), arguments)])
        return found

    async def clock(self) -> list[Finding]:
        sent = time.time()
        ((shows,),) = await self.rows(_CLOCK)
        return [findings.clock(shows / 1e6, sent, time.time())]

    async def connections(self) -> list[Finding]:
        known = dict(await self.rows(_SETTINGS))
        ((used,),) = await self.rows(_CLIENTS)
        ((by_role, in_database, own, here),) = await self.rows(_LIMITS)
        most = _number(known, "max_connections") - _number(known, "superuser_reserved_connections")
        shares = [(used, most, "the server"), (own, by_role, "the user"),
                  (here, in_database, "the database")]  # fmt: skip
        # A limit of -1 is none.
        count, limit, whose = max(
            (each for each in shares if each[1] >= 0), key=lambda each: each[0] / max(1, each[1])
        )
        found = f"{count} of {limit} connections that {whose} allows are used."
        if count >= limit * _CROWDED:
            advice = "Raise the limit, or let clients share connections (?connections=)."
            return [warn("postgresql-connections", found, advice)]
        return [ok("postgresql-connections", found)]

    async def replicas(self) -> list[Finding]:
        known = dict(await self.rows(_SETTINGS))
        ((followers, in_step),) = await self.rows(_FOLLOWERS)
        return [judged("postgresql-replicas", lambda: _replicas(known, followers, in_step))]

    async def table(self) -> list[Finding]:
        code, name = "postgresql-table", self._table
        lacking = await table_rights.lacking(code, name, self.rows)
        if lacking is not None:
            return [lacking]
        rows = await self.rows(_TABLE, name=name)
        if rows and rows[0][0] == "u":
            found = f"The table {name} is not logged: a crash of the server empties it."
            return [warn(code, found, f"ALTER TABLE {name} SET LOGGED.")]
        return [ok(code, f"The table {name} is there, is logged, and may be used.")]


def _number(known: dict[str, str], name: str) -> int:
    if name not in known:
        raise NotKnown(f"The server does not tell {name}.")
    return int(known[name])


def _version(known: dict[str, str]) -> Finding:
    number, said = _number(known, "server_version_num"), known.get("server_version", "?")
    found = f"The server is PostgreSQL {said}."
    if number < _OLDEST:
        return fail("postgresql-version", found, "Use PostgreSQL 12 or newer.")
    return ok("postgresql-version", found)


def _durability(known: dict[str, str]) -> Finding:
    code = "postgresql-durability"
    if known.get("fsync") == "off":
        found = "The server does not wait for its disk (fsync off): a crash may lose every lock."
        return fail(code, found, "Set fsync to on: a crash may damage all of its data.")
    return ok(code, "What was granted is on the disk, and survives a crash.")


def _vacuum(known: dict[str, str]) -> Finding:
    code = "postgresql-vacuum"
    if known.get("autovacuum") == "off":
        found = "Nobody cleans tables up (autovacuum off): the table of locks grows and slows down."
        return warn(code, found, "Set autovacuum to on, or let cron VACUUM the table.")
    return ok(code, "Dead rows of the table are cleaned up (autovacuum).")


def _transactions(known: dict[str, str]) -> Finding:
    code, left = "postgresql-transactions", _number(known, "idle_in_transaction_session_timeout")
    if 0 < left < _SHORT:
        found = (
            f"Transactions that are idle for {spell(left / 1000)} are ended "
            "(idle_in_transaction_session_timeout), those that while_held binds to a lock among "
            "them."
        )
        return warn(code, found, "Raise it for the users whose transactions wait for other work.")
    return ok(code, "Transactions that a lock is bound to may take as long as a ttl.")


def _replicas(known: dict[str, str], followers: int, in_step: int) -> Finding:
    code = "postgresql-replicas"
    if not followers:
        if known.get("synchronous_standby_names"):
            found = "Commits wait for a standby (synchronous_standby_names), and none is there."
            return fail(code, found, "Start the standby, or take it out of the setting.")
        return ok(code, "No standby follows the server: nothing fails over.")
    waits = known.get("synchronous_commit") not in ("local", None)
    if in_step and waits:
        return ok(code, f"{followers} standbys follow the server, and commits wait for {in_step}.")
    found = (
        f"{followers} standbys follow the server, and commits do not wait for them: a failover "
        "forgets the newest locks."
    )
    return warn(code, found, "Set synchronous_standby_names, if the server may fail over.")


async def _pool(primary: Primary) -> Sequence[Finding]:
    code = "postgresql-pool"
    if primary.pooled:
        found = (
            "A proxy lends a session for each transaction (PgBouncer, pool_mode=transaction): "
            "waiters are not woken, and look every second."
        )
        advice = "Let Locknut connect to the server itself, or by pool_mode=session."
        return [warn(code, found, advice)]
    return [ok(code, "Our sessions are our own: no proxy lends them to others in between.")]
