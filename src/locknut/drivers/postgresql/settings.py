"""What a PostgreSQL URL says; what libpq knows goes to libpq, with its files and environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import psycopg
from psycopg import pq

from locknut.core import validation
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

NAME: Final = "postgresql"
CONNECT_LIMIT: Final = 5.0
"""Seconds after which a server counts as unreachable."""
CONNECTIONS: Final = 10
MOST_CONNECTIONS: Final = 1000
OPTIONS: Final = ("connections", "pool_mode")
_KEEPALIVES: Final = {
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""A server that vanished without a word is noticed after half a minute, by the kernel."""
_PORT: Final = "5432"


@dataclass(frozen=True, slots=True)
class Settings:
    """One database. The ways to its servers have secrets in them: its repr does not show them."""

    place: str
    """What may be shown: hosts and database."""
    ways: tuple[bytes, ...] = field(repr=False)
    """For each host in turn: what libpq connects by."""
    limit: float
    """Seconds after which a command counts as unanswered."""
    connect_limit: float = CONNECT_LIMIT
    connections: int = CONNECTIONS
    """How many there may be for callers."""
    pool_mode: str = ""
    """What the URL says of a proxy between us and the server: whether it lends a session of the
    server for a `session` of ours, or for a `transaction`; empty: it is found out."""


def read(url: Url, limit: float) -> Settings:
    """The settings of a URL that has only options of libpq and of this driver."""
    given = dict(url.options)
    own = {option: given.pop(option) for option in OPTIONS if option in given}
    parts = _parsed(url, given)
    if parts.get("target_session_attrs", "any") not in {"any", "read-write", "primary"}:
        raise _wrong("locks need a server that takes writes: target_session_attrs=read-write")
    parts.pop("target_session_attrs", None)  # every server is asked
    known = _defaults()
    pairs = _hosts(parts, known)
    database = parts.get("dbname") or known.get("dbname") or parts.get("user") or ""
    return Settings(
        place=f"{','.join(_shown(host, port) for host, _, port in pairs)}/{database}",
        ways=tuple(_way(parts, *pair) for pair in pairs),
        limit=limit,
        connect_limit=_connect_limit(parts.get("connect_timeout")),
        connections=_count(own.get("connections", str(CONNECTIONS))),
        pool_mode=_pool_mode(own.get("pool_mode", "")),
    )


def libpq_options() -> tuple[str, ...]:
    """All that the libpq at hand understands."""
    return tuple(each.keyword.decode() for each in pq.Conninfo.get_defaults())


def _parsed(url: Url, options: dict[str, str]) -> dict[str, str]:
    """As libpq itself reads it."""
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    text = f"postgresql://{url.netloc}{quote(url.path)}{query}"
    try:
        found = pq.Conninfo.parse(text.encode())
    except psycopg.OperationalError as error:
        reason = str(error).split(":", 1)[0] if url.netloc.rpartition("@")[0] else str(error)
        raise _wrong(f"the URL is wrong: {reason.strip()}") from None  # it may show the password
    return {each.keyword.decode(): each.val.decode() for each in found if each.val is not None}


def _defaults() -> dict[str, str]:
    """Of the environment, and of the service that it names."""
    found = pq.Conninfo.get_defaults()
    return {each.keyword.decode(): each.val.decode() for each in found if each.val}


def _hosts(parts: dict[str, str], known: dict[str, str]) -> list[tuple[str, str, str]]:
    """Host, address and port of each server; libpq has one port for all, or one for each."""
    if "service" in parts:
        return [(parts.get("host", ""), parts.get("hostaddr", ""), parts.get("port", ""))]
    hosts = (parts.get("host") or known.get("host") or "").split(",")
    addresses = (parts.get("hostaddr") or known.get("hostaddr") or "").split(",")
    ports = (parts.get("port") or known.get("port") or _PORT).split(",")
    many = max(len(hosts), len(addresses))
    hosts = _as_many(hosts, many, "host")
    addresses = _as_many(addresses, many, "hostaddr")
    ports = _as_many(ports * many if len(ports) == 1 else ports, many, "port")
    ports = [each or _PORT for each in ports]
    if not all(each.isdecimal() and 0 < int(each) < 65536 for each in ports):
        raise _wrong("the port of the URL is not a number from 1 to 65535")
    return list(zip(hosts, addresses, ports, strict=True))


def _as_many(values: list[str], many: int, what: str) -> list[str]:
    if values == [""]:
        return [""] * many
    if len(values) != many:
        raise _wrong(f"the URL has {len(values)} of {what} for {many} servers")
    return values


def _way(parts: dict[str, str], host: str, address: str, port: str) -> bytes:
    own = {"host": host, "hostaddr": address, "port": port}
    told = {
        "application_name": "locknut",
        **_KEEPALIVES,
        **parts,
        **{key: value for key, value in own.items() if value},
        "client_encoding": "UTF8",
    }
    if not address:
        told.pop("hostaddr", None)
    return psycopg.conninfo.make_conninfo("", **told).encode()


def _shown(host: str, port: str) -> str:
    return f"{host or 'localhost'}:{port}" if port else host or "service"


def _connect_limit(text: str | None) -> float:
    limit = CONNECT_LIMIT if text is None else validation.seconds(text, "connect_timeout")
    if not 0.05 <= limit <= 3600:
        raise _wrong("connect_timeout must be between 50 ms and 1 h")
    return limit


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CONNECTIONS:
        raise _wrong(f"connections must be a number from 1 to {MOST_CONNECTIONS}")
    return int(text)


def _pool_mode(text: str) -> str:
    if text not in {"", "session", "transaction"}:
        raise _wrong("pool_mode must be session or transaction, or not be given")
    return text


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, backend=NAME)
