"""What each database is asked when a holder enters, and what its answers mean.

A holder enters inside the transaction that does its work. It locks the row of its name, so whoever
comes next waits until that transaction is over. It finds the newest fence that entered and was
committed, and writes its own there if that is not older. Everything here is text: `:name`,
`:hexed` (the name again) and `:fence` stand for values, `{table}` for the table. Each `yield` is
one statement, which is answered by its rows.

Every entry counts up `entries`, also one with the fence that is there already: the row is then
always a new one, by which a database can tell a transaction that its snapshot is older.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeVar

from locknut.errors import BackendError, ConfigurationError

T = TypeVar("T")
Row = tuple[Any, ...]
Asking = Generator[str, list[Row], T]

_NEWEST = "SELECT fence FROM {table} WHERE name = :name"


class Dialect(Protocol):
    """One family of databases."""

    table: str
    """Makes the table. Names are kept as bytes: no collation then takes two of them for one."""
    newest: str
    """Asks for the fence that entered last."""

    def enter(self, fence: int) -> Asking[int]:
        """The newest fence after this one came in; if it is greater, this one did not."""

    def begun(self) -> Asking[None]:
        """Raise unless there is a transaction: then nothing is committed by itself."""


class PostgreSQL:
    """A row that was changed since the snapshot is a serialization failure of the database."""

    table = (
        "CREATE TABLE IF NOT EXISTS {table} "
        "(name bytea PRIMARY KEY, fence bigint NOT NULL, entries bigint NOT NULL)"
    )
    newest = _NEWEST

    def enter(self, fence: int) -> Asking[int]:  # noqa: ARG002 -- the statement itself compares
        ((newest,),) = yield (
            "INSERT INTO {table} AS kept (name, fence, entries) VALUES (:name, :fence, 1) "
            "ON CONFLICT (name) DO UPDATE SET fence = GREATEST(kept.fence, excluded.fence), "
            "entries = kept.entries + 1 RETURNING fence"
        )
        yield from self._numbered()
        return int(newest)

    def begun(self) -> Asking[None]:
        yield "SELECT txid_current()"
        yield from self._numbered()

    def _numbered(self) -> Asking[None]:
        """What has just got a number has it still; if there is none, that transaction is over."""
        ((number,),) = yield "SELECT txid_current_if_assigned()"
        if number is None:
            raise _outside()


class MySQL:
    """MySQL and MariaDB, where a write meets the newest row and a read stays with its snapshot."""

    table = (
        "CREATE TABLE IF NOT EXISTS {table} (name VARBINARY(1024) PRIMARY KEY, "
        "fence BIGINT NOT NULL, entries BIGINT NOT NULL) ENGINE=InnoDB"
    )
    # In hex, because not every driver can send bytes: aiomysql fails with a PyMySQL of today.
    newest = "SELECT fence FROM {table} WHERE name = UNHEX(:hexed)"

    def enter(self, fence: int) -> Asking[int]:
        # Locks the row, and makes no snapshot yet. A locking read would lock the gap around a name
        # that is new, and two who have done that deadlock as soon as they make their rows.
        yield (
            "INSERT INTO {table} (name, fence, entries) VALUES (UNHEX(:hexed), 0, 0) "
            "ON DUPLICATE KEY UPDATE entries = entries"
        )
        # The row as it is, beside the row as the snapshot has it, which is made now at the latest.
        ((newest, entries, seen, autocommit),) = yield (
            "SELECT latest.fence AS fence, latest.entries AS entries, (SELECT earlier.entries "
            "FROM {table} AS earlier WHERE earlier.name = latest.name) AS seen, "
            "@@autocommit AS autocommit "
            "FROM {table} AS latest WHERE latest.name = UNHEX(:hexed) FOR UPDATE"
        )
        if int(autocommit):
            yield from self._saved()
        if int(newest) > fence:
            return int(newest)
        if entries != seen:
            raise BackendError(
                "this transaction had begun to read before it entered, and somebody else entered "
                "since then, so what it reads is out of date; roll back, start it again, and enter "
                "before its first read"
            )
        yield (
            "UPDATE {table} SET fence = :fence, entries = entries + 1 WHERE name = UNHEX(:hexed)"
        )
        return fence

    def begun(self) -> Asking[None]:
        ((autocommit,),) = yield "SELECT @@autocommit"
        if int(autocommit):
            yield from self._saved()

    def _saved(self) -> Asking[None]:
        """Statements commit by themselves unless there was a BEGIN; then savepoints are kept."""
        yield "SAVEPOINT locknut_guard"
        try:
            yield "RELEASE SAVEPOINT locknut_guard"
        except Exception as error:
            if "1305" in str(error):  # ER_SP_DOES_NOT_EXIST; every driver shows the number
                raise _outside() from error
            raise


class SQLite:
    """There is one writer at a time, and one whose snapshot is old finds the database locked."""

    table = (
        "CREATE TABLE IF NOT EXISTS {table} "
        "(name BLOB PRIMARY KEY NOT NULL, fence INTEGER NOT NULL, entries INTEGER NOT NULL)"
    )
    newest = _NEWEST

    def enter(self, fence: int) -> Asking[int]:  # noqa: ARG002 -- the statement itself compares
        # Python's module begins a transaction by itself before what starts with INSERT.
        yield (
            "INSERT INTO {table} (name, fence, entries) VALUES (:name, :fence, 1) "
            "ON CONFLICT (name) DO UPDATE SET fence = MAX(fence, excluded.fence), "
            "entries = entries + 1"
        )
        ((newest,),) = yield _NEWEST
        yield from self.begun()
        return int(newest)

    def begun(self) -> Asking[None]:
        try:
            yield "BEGIN"
        except Exception as error:  # every driver has its own
            if "within a transaction" in str(error):
                return
            raise
        yield "ROLLBACK"
        raise _outside()


def _outside() -> ConfigurationError:
    return ConfigurationError(
        "enter a guard inside a transaction: on this connection every statement is committed by "
        "itself (autocommit), so others could come in between the check and your next statement"
    )


DIALECTS: dict[str, Dialect] = {
    "postgresql": PostgreSQL(),
    "mysql": MySQL(),
    "mariadb": MySQL(),
    "sqlite": SQLite(),
}
