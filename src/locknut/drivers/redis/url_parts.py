"""A Redis URL taken apart: user, password, host, port, path and database, as redis-py reads it.

Programs have such URLs already, written for redis-py: so the same text means the same here, down to
what is refused. Options besides `db` are not its affair (`settings`).
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit


class UrlParts(NamedTuple):
    """What a URL says; empty or 0 where it says nothing."""

    username: str = ""
    password: str = ""
    host: str = ""
    port: int = 0
    path: str = ""
    """Of a unix socket."""
    db: int = 0


def take_apart(text: str) -> UrlParts:
    """The parts of a `redis://`, `rediss://` or `unix://` URL; a ValueError says what is wrong."""
    url = urlsplit(text)
    db = _db_option(url.query)
    login = unquote(url.username or ""), unquote(url.password or "")
    if url.scheme == "unix":
        return UrlParts(*login, path=unquote(url.path), db=db or 0)
    if db is None:
        db = _db_of_path(unquote(url.path))
    return UrlParts(*login, unquote(url.hostname or ""), url.port or 0, db=db)


def _db_option(query: str) -> int | None:
    given = parse_qs(query).get("db")
    try:
        return None if given is None else int(given[0])
    except ValueError:
        raise ValueError("Invalid value for 'db' in connection URL.") from None


def _db_of_path(path: str) -> int:
    """The number of the database; a path that is no number says nothing, as in redis-py."""
    try:
        return int(path.replace("/", ""))
    except ValueError:
        return 0
