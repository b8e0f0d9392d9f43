"""What a program's own connection is: its database, how it writes parameters, and its colour.

Nothing is imported for it: whoever has a connection has imported its driver. What SQLAlchemy gives
knows its database, and passes statements on to the driver as they are. Django's connections know it
too, and write parameters in one way for all.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from locknut.errors import ConfigurationError
from locknut.guards.sql.dialects import DIALECTS, Row

DRIVERS: Final = {
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
    "mysql": "mysql",
    "aiomysql": "mysql",
    "sqlite3": "sqlite",
    "aiosqlite": "sqlite",
}
"""The database of each driver, by its top module."""
STYLES: Final = {
    "qmark": "?",
    "numeric": ":{number}",
    "numeric_dollar": "${number}",
    "named": ":{word}",
    "format": "%s",
    "pyformat": "%({word})s",
}
"""How a parameter is written, by the names of PEP 249, and SQLAlchemy's one for PostgreSQL."""
_PLACE = re.compile(r":(name|hexed|fence)\b")
_TABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?", re.ASCII)


class OwnConnection:
    """A connection, cursor or session that the program has, and how to put a question to it."""

    def __init__(
        self, given: Any, table: str, dialect: str | None = None, paramstyle: str | None = None
    ) -> None:
        if not isinstance(table, str) or not _TABLE.fullmatch(table):
            message = f"table={table!r} must be a name, or a schema and a name: 'app.guards'"
            raise ConfigurationError(message)
        self.given = given
        self.is_session = hasattr(given, "get_bind")
        self.is_sqlalchemy = self.is_session or hasattr(given, "exec_driver_sql")
        database, style = self._told()
        known, styles = ", ".join(DIALECTS), ", ".join(STYLES)
        self.dialect = DIALECTS[self._chosen("dialect", dialect or database, known)]
        self._mark = STYLES[self._chosen("paramstyle", paramstyle or style, styles)]
        self._table = table

    def check_colour(self, *, awaits: bool) -> None:
        """Refuse a connection of the other colour: nobody would wait for its answers."""
        if _awaits(self.given) is not awaits:
            where = "locknut.guards.sql" if awaits else "locknut.guards.sql.aio"
            does = "blocks" if awaits else "is for asyncio"
            kind = type(self.given).__qualname__
            raise ConfigurationError(f"a {kind} {does}: its guard is in {where}")

    def statement(self, text: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """As `execute` takes it: the text, and its parameters if there are any."""
        words = _PLACE.findall(text)
        numbers = iter(range(1, len(words) + 1))
        said = _PLACE.sub(
            lambda place: self._mark.format(word=place[1], number=next(numbers)),
            text.format(table=self._table),
        )
        if not words:
            return (said,)
        if "{word}" in self._mark:
            return said, {word: values[word] for word in words}
        return said, tuple(values[word] for word in words)

    def cursor(self) -> Any:
        """One of our own; the given one, if its driver does not lead from it to its connection."""
        if callable(getattr(self.given, "cursor", None)):
            return self.given.cursor()
        connection: Any = getattr(self.given, "connection", None)
        driver = _driver(self.given)
        led = driver is not None and driver == _driver(connection)
        return connection.cursor() if led else self.given

    def with_plain_rows(self, cursor: Any) -> Any:
        """The cursor, without what the program has set to make its own rows."""
        if cursor is not self.given and hasattr(cursor, "row_factory"):
            psycopg = "psycopg" in _packages(cursor)
            cursor.row_factory = sys.modules["psycopg.rows"].tuple_row if psycopg else None
        return cursor

    def _told(self) -> tuple[str | None, str | None]:
        """What it says about itself."""
        if self.is_sqlalchemy:
            dialect = (self.given.get_bind() if self.is_session else self.given).dialect
            return dialect.name, dialect.paramstyle
        if "django" in _packages(self.given):
            return getattr(self.given, "db", self.given).vendor, "format"
        driver = _driver(self.given)
        return (None, None) if driver is None else (DRIVERS[driver], _paramstyle(driver))

    def _chosen(self, option: str, value: str | None, known: str) -> str:
        if value in known.split(", "):
            return str(value)
        kind = type(self.given).__qualname__
        said = f"what is the {option} of a {kind}" if value is None else f"{option}={value!r}"
        raise ConfigurationError(f"{said}? Say it by {option}=, one of {known}")


def plain(rows: Any) -> list[Row]:
    """As tuples, in the order of the columns: a program may have set cursors that give dicts."""
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]


def _awaits(thing: Any) -> bool:
    """Whether this connection, cursor or session is for asyncio."""
    method = getattr(thing, "commit", None) or getattr(thing, "execute", None)
    return inspect.iscoroutinefunction(method)


def _paramstyle(package: str) -> str:
    """As the driver says; aiomysql does not, and is PyMySQL underneath."""
    modules = (sys.modules.get(each) for each in (package, f"{package}.connector"))
    said = (getattr(each, "paramstyle", None) for each in modules)
    return next(filter(None, said), "pyformat")


def _driver(thing: Any) -> str | None:
    return next((each for each in _packages(thing) if each in DRIVERS), None)


def _packages(connection: Any) -> Iterator[str]:
    """The top modules of its class and its bases: a program may have derived its own."""
    return (each.__module__.partition(".")[0] for each in type(connection).__mro__)
