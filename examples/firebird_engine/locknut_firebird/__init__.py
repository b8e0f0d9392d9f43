"""Locks in a table of a Firebird database: what docs/extending.md calls a further SQL database."""

from __future__ import annotations

from importlib import resources
from urllib.parse import unquote

from locknut import port
from locknut.backends.sql import statements, table_options
from locknut.backends.sql.plain_engine import PlainEngine
from locknut.drivers.connection_pool import Limits
from locknut_firebird.sessions import Pool

SAID = resources.files(__name__).joinpath("statements.sql").read_text("utf-8")


def open_engine(url: port.Url) -> PlainEngine:
    """`firebird://user:password@host:3050/path/of/the/database.fdb`."""
    port.check_options("firebird", url.options, table_options.OPTIONS)
    table = table_options.table_name("firebird", url.options)
    limit = table_options.limit("firebird", url.options)
    login, _, where = url.netloc.rpartition("@")
    user, _, password = map(unquote, login.partition(":"))
    host, _, number = where.partition(":")
    database = {"host": host, "port": int(number or 3050), "database": unquote(url.path)}
    said = statements.read(SAID, f'"{table}"')

    def new_pool() -> Pool:
        limits = Limits("firebird", f"{where}{url.path}", limit)
        return Pool(limits, {"user": user, "password": password, **database}, said.create[0])

    return PlainEngine("firebird", f"firebird:{url.path}/{table}", said, new_pool)
