"""A lease engine on SQLite, one table in one file of one machine: see docs/extending.md."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from threading import get_ident
from typing import TypeVar

from locknut import port

T = TypeVar("T")
HOST = socket.gethostname()
LIMIT = 2.0  # seconds that one command may wait for the others
BUSY = port.Busy(0.02, queued=False)  # nobody rings: ask again soon; there is no line to leave
TOMBSTONE = 60.0  # longer than any sending may be under way
TABLE = """CREATE TABLE IF NOT EXISTS claims (
    raw INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, so it grows with every grant
    id TEXT UNIQUE, key TEXT,              -- a tombstone has an id and no key
    ends REAL, since REAL, who TEXT, label TEXT, host TEXT, pid INTEGER)"""


class SqliteBackend(port.BaseBackend):
    """One client's door to the file. A connection per command: threads and forks share nothing."""

    name = "sqlite-example"
    capabilities = frozenset(map(port.Capability, ("fencing", "lease", "durable", "no_eviction")))
    default_ttl: float | None = 30.0
    min_ttl = 0.1
    max_ttl = 86400.0
    heartbeat: float | None = 1.0  # a hold that was broken is noticed within a second

    def __init__(self, path: str, runtime: port.Runtime, *, aside: bool):
        self._path, self._now, self._aside = path, runtime.now, aside
        self._busy: set[int] = set()  # threads in the middle of a command

    def inside(self) -> bool:
        """A finalizer in the middle of a command would wait for that command to end."""
        return get_ident() in self._busy

    async def _ask(self, work: Callable[[sqlite3.Connection, float], T]) -> T:
        if not self._aside:
            return self._run(work)  # the blocking colour: the calling thread waits
        return await asyncio.get_running_loop().run_in_executor(None, self._run, work)

    def _run(self, work: Callable[[sqlite3.Connection, float], T]) -> T:
        try:
            self._busy.add(get_ident())
            wait = port.time_left(LIMIT)
            with closing(sqlite3.connect(self._path, timeout=wait, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")  # from here on nobody else writes
                file.execute(TABLE)
                now = self._now()  # not before: waiting for our turn took time
                # This clock begins anew with the machine: what ends too late is of before.
                file.execute("DELETE FROM claims WHERE ends <= ? OR ends > ?", (now, now + 86460))
                found = work(file, now)
                file.execute("COMMIT")
                return found
        except (sqlite3.OperationalError, TimeoutError) as error:  # "database is locked", mostly
            raise port.BackendUnavailable(f"no answer: {error}", backend=self.name) from error
        except sqlite3.Error as error:
            raise port.BackendError(str(error), backend=self.name) from error
        finally:
            self._busy.discard(get_ident())

    async def attempt(self, claim: port.Claim, patience: float) -> port.Answer:  # noqa: ARG002
        def work(file: sqlite3.Connection, now: float) -> port.Answer:
            ends = now + (claim.ttl or 30)
            for raw, key in file.execute("SELECT raw, key FROM claims WHERE id = ?", (claim.id,)):
                if key is None:  # a tombstone: it was given up, and this sending comes too late
                    return BUSY
                file.execute("UPDATE claims SET ends = ? WHERE raw = ?", (ends, raw))
                return port.Granted(raw)
            if file.execute("SELECT 1 FROM claims WHERE key = ?", (claim.key,)).fetchone():
                return BUSY
            facts = (claim.id, claim.key, ends, time.time(), claim.who, claim.label)
            row = (*facts, HOST, os.getpid())
            made = file.execute("INSERT INTO claims VALUES (NULL,?,?,?,?,?,?,?,?)", row)
            return port.Granted(int(made.lastrowid or 0))

        return await self._ask(work)

    async def renew(self, claims: Sequence[port.Claim]) -> Sequence[port.Renewal]:
        def work(file: sqlite3.Connection, now: float) -> list[port.Renewal]:
            change = "UPDATE claims SET ends = ? WHERE id = ? AND key IS NOT NULL"
            rows = [(now + (claim.ttl or 30), claim.id) for claim in claims]
            held = [file.execute(change, row).rowcount for row in rows]
            return [port.Renewal.HELD if each else port.Renewal.LOST for each in held]

        return await self._ask(work)

    async def release(self, claim: port.Claim, *, outcome_unknown: bool = False) -> bool:
        def work(file: sqlite3.Connection, now: float) -> bool:
            gone = "DELETE FROM claims WHERE id = ? AND key IS NOT NULL"
            held = file.execute(gone, (claim.id,)).rowcount > 0
            if outcome_unknown:
                row = (claim.id, now + TOMBSTONE)
                file.execute("INSERT OR REPLACE INTO claims (id, ends) VALUES (?, ?)", row)
            return held

        return await self._ask(work)

    async def inspect(self, key: str | None = None) -> list[port.LockInfo]:
        return await self._ask(lambda file, now: _seen(file, now, key))

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> port.LockInfo | None:  # noqa: ARG002
        def work(file: sqlite3.Connection, now: float) -> port.LockInfo | None:
            found = [each for each in _seen(file, now, key) if raw in {None, each.holders[0].raw}]
            if found:
                file.execute("DELETE FROM claims WHERE key = ?", (key,))
            return found[0] if found else None

        return await self._ask(work)

    async def close(self) -> None: ...  # nothing is kept open


def _seen(file: sqlite3.Connection, now: float, key: str | None) -> list[port.LockInfo]:
    columns = "key, host, pid, who, label, raw, since, ends - ?"
    wanted = f"SELECT {columns} FROM claims WHERE key IS NOT NULL AND key = coalesce(?, key)"  # noqa: S608
    found = []
    for name, host, pid, who, label, raw, since, left in file.execute(wanted, (now, key)):
        holder = port.Holder(host, pid, who, label, raw=raw, since=since, ttl_left=left)
        found += [port.LockInfo(name, (holder,))]
    return found


class SqliteEngine(port.BaseEngine):
    """Makes backends; the file is made by the first command."""

    def __init__(self, path: str):
        self.id, self._path = f"sqlite-example:{path}", path

    def blocking(self, runtime: port.Runtime) -> SqliteBackend:
        return SqliteBackend(self._path, runtime, aside=False)

    def asyncio(self, runtime: port.Runtime) -> SqliteBackend:
        return SqliteBackend(self._path, runtime, aside=True)


def open_engine(url: port.Url) -> SqliteEngine:
    port.check_options("sqlite-example", url.options, ())
    if not url.path.startswith("/"):
        raise port.ConfigurationError("the path has to be absolute: sqlite-example:///dir/locks.db")
    return SqliteEngine(url.path)
