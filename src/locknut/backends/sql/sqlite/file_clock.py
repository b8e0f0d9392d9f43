"""The clock of a database file: the same for all processes of the machine, and it never steps.

It is the kernel's clock since the boot, moved to the time of day once for each boot. By how much it
is moved stands in the table, in a row of its own, with the boot's id; who finds another boot's id
there decides anew. Setting the machine's time of day later changes nothing. After a boot the clock
goes on from the latest time that the table knows of, whatever the time of day is by then: what was
held or numbered before must not seem to be of the future.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Final

from locknut.backends.sql.table_port import RAW_STEP, US
from locknut.runtimes import this_boot

NAME: Final = b"m"
"""The key of the row: `others` is the boot's id, `stamp` the offset, and `expires` the latest time
at which numbers were forgotten (`prune`)."""
_KNOWN: Final = "SELECT stamp FROM {table} WHERE name = :key AND others = :boot"
_LATEST: Final = (
    "SELECT max(max(fence) * :step, max(CASE name WHEN :key THEN expires ELSE 0 END)) FROM {table}"
)
_DECIDE: Final = (
    "INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)"
    " VALUES (:key, 0, :offset, '', '', :latest, '', :boot) ON CONFLICT (name) DO UPDATE"
    " SET stamp = excluded.stamp, expires = excluded.expires, others = excluded.others"
)


class FileClock:
    """Reads the time of one file, in microseconds."""

    def __init__(self, now: Callable[[], float]):
        self._now = now
        self._ahead: int | None = None
        """Microseconds between the clock of this process and that of the file."""

    def read(self) -> int:
        if self._ahead is None:  # the time of day is all that the processes have in common
            return time.time_ns() // 1000
        return int(self._now() * US) + self._ahead

    def set(self, connection: sqlite3.Connection, table: str) -> None:
        """Find out how far the clock is moved in this boot; if nobody has said it yet, decide."""
        boot = this_boot.boot_id().strip()
        if not boot:
            self._ahead = None
            return
        known = _known(connection, table, boot)
        if known is None:
            connection.execute("BEGIN IMMEDIATE")
            known = _known(connection, table, boot)
            if known is None:  # nobody was quicker
                known = self._decide(connection, table, boot)
            connection.execute("COMMIT")
        self._ahead = known - _shifted()

    def _decide(self, connection: sqlite3.Connection, table: str, boot: str) -> int:
        asked = {"key": NAME, "step": RAW_STEP}
        found = connection.execute(_LATEST.replace("{table}", table), asked).fetchone()
        latest = found[0] or 0
        offset = max(time.time_ns() // 1000, latest + 1) - self._since_boot()
        row = {"key": NAME, "offset": offset, "latest": latest, "boot": boot}
        connection.execute(_DECIDE.replace("{table}", table), row)
        return int(offset)

    def _since_boot(self) -> int:
        return int(self._now() * US) - _shifted()


def _shifted() -> int:
    """By how much this process's time namespace has shifted its clock."""
    return this_boot.shift("boottime") // 1000


def _known(connection: sqlite3.Connection, table: str, boot: str) -> int | None:
    asked = {"key": NAME, "boot": boot}
    found = connection.execute(_KNOWN.replace("{table}", table), asked).fetchone()
    return None if found is None else int(found[0])
