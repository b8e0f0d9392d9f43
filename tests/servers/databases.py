"""A fresh database in a private SQL server, and who logs in to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

if TYPE_CHECKING:
    from tests.servers.sql import SqlServer

USER = "tester"
PASSWORD = "s3cret"
"""Who owns the databases of the tests; not an administrator."""


@dataclass(frozen=True, slots=True)
class Database:
    """Use it in a `with`: it is gone afterwards, with whoever was connected to it."""

    server: SqlServer
    name: str
    user: str = USER
    password: str = PASSWORD

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.drop(self)

    @property
    def url(self) -> str:
        """As `locknut.connect` wants it."""
        return self.url_through(self.server.port)

    def url_through(self, port: int) -> str:
        """The same, through a proxy that listens there."""
        scheme, options = self.server.scheme, self.server.url_options()
        return f"{scheme}://{self._login}@{self.server.host}:{port}/{self.name}{options}"

    @property
    def unix_url(self) -> str:
        """The same, by the socket."""
        return self.server.unix_url(self._login, self.name)

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """The rows of one statement, by the administrator."""
        return self.server.ask(sql, self.name)

    def login(self, user: str, *grants: str, password: str = PASSWORD) -> Database:
        """The same database for a new user who may do nothing but this: "SELECT ON locks".

        The name gets a number: users belong to the whole server.
        """
        new = replace(self, user=f"{user}_{self.server.number()}", password=password)
        self.server.add_user(new, grants)
        return new

    @property
    def _login(self) -> str:
        return f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
