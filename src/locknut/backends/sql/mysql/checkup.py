"""What is looked at to see whether locks are safe on a MySQL or MariaDB: its settings, who follows
it, and the table.

Connections of ours settle the isolation, `sql_mode` and `autocommit` for themselves, so nothing is
found about these. Every user may read what is asked for here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from locknut.backends.sql import table_rights
from locknut.core import findings
from locknut.core.durations import spell
from locknut.core.findings import Check, NotKnown, fail, judged, ok, warn
from locknut.core.values import Finding
from locknut.drivers.mysql.session_pool import SessionPool

_OLDEST: Final = {"MariaDB": (10, 6), "MySQL": (8, 0)}
_CROWDED: Final = 0.8
_IDLE: Final = 60
"""Seconds. Connections of ours are idle for a third of the ttl between two renewals."""
_SETTINGS: Final = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'max_connections', 'wait_timeout', "
    "'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'wsrep_on', "
    "'group_replication_single_primary_mode')"
)
_STATE: Final = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'Slaves_connected', "
    "'Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')"
)
_CLOCK: Final = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"
_ENGINE: Final = (
    "SELECT engine FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name = '{table}'"
)
Known = dict[str, str]


def checks(pool: SessionPool, table: str) -> list[Check]:
    """At the server of this pool; `table` is not quoted."""

    async def settings() -> list[Finding]:
        answers = pool.ask([_SETTINGS, _STATE])
        known = {str(name): str(value) for rows in answers for name, value in rows}
        return [judged(code, partial(judge, known)) for code, judge in _JUDGES.items()]

    async def clock() -> list[Finding]:
        sent = time.time()
        ((shows,),) = _rows(pool, _CLOCK)
        return [findings.clock(shows / 1e6, sent, time.time())]

    async def own_table() -> list[Finding]:
        return [await _table(pool, table)]

    return [
        Check(("clock",), clock),
        Check(tuple(_JUDGES), settings),
        Check(("mysql-table",), own_table),
    ]


def _rows(pool: SessionPool, text: str) -> Any:
    (rows,) = pool.ask([text])
    return rows


async def _table(pool: SessionPool, table: str) -> Finding:
    code, quoted = "mysql-table", f"`{table}`"

    async def ask(text: str) -> object:
        return _rows(pool, text)

    lacking = await table_rights.lacking(code, quoted, ask)
    if lacking is not None:
        return lacking
    ((engine,),) = _rows(pool, _ENGINE.format(table=table))
    if engine != "InnoDB":
        found = f"The table {quoted} is kept by {engine}: several locks are not one step there."
        return fail(code, found, f"ALTER TABLE {quoted} ENGINE = InnoDB.")
    return ok(code, f"The table {quoted} is there, is kept by InnoDB, and may be used.")


def _told(known: Known, name: str) -> str:
    if name not in known:
        raise NotKnown(f"The server does not tell {name}.")
    return known[name]


def _version(known: Known) -> Finding:
    said = _told(known, "version")
    product = "MariaDB" if "MariaDB" in said else "MySQL"
    number = tuple(int(part) for part in said.split("-")[0].split(".")[:2])
    found = f"The server is {product} {said.split('-')[0]}."
    if number < _OLDEST[product]:
        oldest = ".".join(map(str, _OLDEST[product]))
        return fail("mysql-version", found, f"Use {product} {oldest} or newer.")
    return ok("mysql-version", found)


def _durability(known: Known) -> Finding:
    code, flushed = "mysql-durability", _told(known, "innodb_flush_log_at_trx_commit")
    if flushed != "1":
        found = (
            f"Commits do not wait for the disk (innodb_flush_log_at_trx_commit {flushed}): a crash "
            "of the machine forgets the locks of the last second."
        )
        return warn(code, found, "Set innodb_flush_log_at_trx_commit to 1.")
    if known.get("log_bin") == "ON" and known.get("sync_binlog") != "1":
        found = (
            f"The binary log does not wait for the disk (sync_binlog {known.get('sync_binlog')}): "
            "after a crash of the machine, replicas and the server may differ."
        )
        return warn(code, found, "Set sync_binlog to 1.")
    return ok(code, "What was granted is on the disk, and survives a crash.")


def _idle_timeout(known: Known) -> Finding:
    code, seconds = "mysql-idle-timeout", int(_told(known, "wait_timeout"))
    found = f"The server hangs up on connections that are idle for {spell(seconds)} (wait_timeout)."
    if seconds < _IDLE:
        advice = f"Set wait_timeout to {_IDLE} or more: each time, all holds are renewed at once."
        return warn(code, found, advice)
    return ok(code, found)


def _connections(known: Known) -> Finding:
    code = "mysql-connections"
    used, most = int(_told(known, "Threads_connected")), int(_told(known, "max_connections"))
    found = f"{used} of {most} connections that the server allows are used (max_connections)."
    if used >= most * _CROWDED:
        return warn(code, found, "Raise max_connections, or let clients use fewer (?connections=).")
    return ok(code, found)


def _replicas(known: Known) -> Finding:
    code = "mysql-replicas"
    semi = "ON" in (
        known.get("Rpl_semi_sync_master_status"),
        known.get("Rpl_semi_sync_source_status"),
    )
    if _told(known, "log_bin") != "ON":
        return ok(code, "The server writes no binary log: nothing fails over to a replica.")
    if semi:
        return ok(code, "Commits wait for a replica (semi-synchronous replication).")
    if "Slaves_connected" not in known:
        raise NotKnown("The server does not tell whether replicas follow it.")
    if known["Slaves_connected"] == "0":
        return ok(code, "No replica follows the server: nothing fails over.")
    found = (
        f"{known['Slaves_connected']} replicas follow the server, and commits do not wait for "
        "them: a failover forgets the newest locks."
    )
    return warn(code, found, "Turn semi-synchronous replication on, if the server may fail over.")


def _several_primaries(known: Known) -> Finding:
    code = "mysql-several-primaries"
    galera = known.get("wsrep_on") == "ON"
    group = known.get("group_replication_single_primary_mode") == "OFF"
    if not galera and not group:
        return ok(code, "The server is the only one that takes writes.")
    product = "Galera" if galera else "Group Replication"
    found = f"The server is one of several that take writes ({product}), and waking works on one."
    return warn(code, found, "Send all clients of Locknut to one of them.")


_JUDGES: Final[dict[str, Callable[[Known], Finding]]] = {
    "mysql-version": _version,
    "mysql-durability": _durability,
    "mysql-idle-timeout": _idle_timeout,
    "mysql-connections": _connections,
    "mysql-replicas": _replicas,
    "mysql-several-primaries": _several_primaries,
}
