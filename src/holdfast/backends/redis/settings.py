"""What a Redis URL says: where servers are, who we are there, and how long a command may take."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from redis import connection

from holdfast.core import doors
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.connect import Url

COMMAND_LIMIT: Final = 2.0
"""Seconds after which a command counts as unanswered."""
_parse_url: Callable[[str], dict[str, Any]] = connection.parse_url
_SCHEMES: Final = {
    "redis": "redis",
    "rediss": "rediss",
    "redis+unix": "unix",
    "valkey": "redis",
    "valkeys": "rediss",
    "valkey+unix": "unix",
}
"""What redis-py calls them."""
_TLS: Final = (
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_cert_reqs",
    "ssl_check_hostname",
)
_OPTIONS: Final = ("db", "socket_timeout", "socket_connect_timeout", *_TLS)


@dataclass(frozen=True, slots=True)
class Settings:
    """One server, as it is to be spoken to. The secrets are not in its repr."""

    host: str
    port: int
    path: str
    """Of a unix socket; empty where host and port count."""
    db: int
    limit: float
    connect_limit: float
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """What may be shown."""
        return self.path or f"{self.host}:{self.port}"

    def at(self, host: str, port: int) -> Settings:
        """Another server that is spoken to in the same way."""
        return replace(self, host=host, port=port, path="")


def read_hosts(url: Url, port: int = 6379) -> list[Settings]:
    """Several servers, with commas between them, all spoken to as the URL says."""
    login, at, hosts = url.netloc.rpartition("@")
    first, *others = hosts.split(",")
    found = [read(type(url)(url.scheme, login + at + first, url.path, url.options), port)]
    for host in others:
        known = _parsed(type(url)(url.scheme, host), _SCHEMES[url.scheme])
        found.append(found[0].at(known.get("host") or "localhost", known.get("port") or port))
    return found


def read(url: Url, port: int = 6379) -> Settings:
    """The settings of a URL; what it should not say is refused here."""
    for option in url.options:
        if option not in _OPTIONS:
            message = f"redis: does not know the option {option!r}; it knows {', '.join(_OPTIONS)}"
            raise ConfigurationError(message, backend="redis")
    scheme = _SCHEMES[url.scheme]
    if scheme != "rediss" and any(each in url.options for each in _TLS):
        message = "options that begin with ssl_ need a rediss:// URL, or nothing is encrypted"
        raise ConfigurationError(message, backend="redis")
    limit = _limit(url, "socket_timeout", COMMAND_LIMIT)
    known = _parsed(url, scheme)
    return Settings(
        host=known.get("host") or "localhost",
        port=known.get("port") or port,
        path=known.get("path") or "" if scheme == "unix" else "",
        db=known.get("db") or 0,
        limit=limit,
        connect_limit=_limit(url, "socket_connect_timeout", limit),
        username=known.get("username") or "",
        password=known.get("password") or "",
        tls=_context(url.options) if scheme == "rediss" else None,
    )


def _parsed(url: Url, scheme: str) -> dict[str, Any]:
    """redis-py's reading of it: user, password, host, port, path and database."""
    database = url.options.get("db")
    query = f"?{urlencode({'db': database})}" if database is not None else ""
    if scheme != "unix" and not url.path.strip("/").isdecimal() and url.path.strip("/"):
        message = f"the path of a redis: URL is the number of a database, got {url.path!r}"
        raise ConfigurationError(message, backend="redis")
    try:
        return dict(_parse_url(f"{scheme}://{url.netloc}{quote(url.path)}{query}"))
    except ValueError as error:
        raise ConfigurationError(f"the redis: URL is wrong: {error}", backend="redis") from None


def _limit(url: Url, option: str, default: float) -> float:
    text = url.options.get(option)
    limit = default if text is None else doors.seconds(text, option)
    if not 0.05 <= limit <= 3600:
        raise ConfigurationError(f"{option} must be between 0.05 and 3600 s", backend="redis")
    return limit


def switch(options: dict[str, str], option: str, *, default: bool) -> bool:
    """An option that is true or false."""
    known = {"true": True, "1": True, "false": False, "0": False}
    chosen = known.get(options.get(option, str(default)).lower())
    if chosen is None:
        raise ConfigurationError(f"{option} must be true or false", backend="redis")
    return chosen


def _context(options: dict[str, str]) -> ssl.SSLContext:
    """Certificates are checked unless `ssl_cert_reqs=none` says otherwise."""
    wanted = options.get("ssl_cert_reqs", "required")
    if wanted not in {"required", "none"}:
        raise ConfigurationError("ssl_cert_reqs must be 'required' or 'none'", backend="redis")
    named = switch(options, "ssl_check_hostname", default=True)
    try:
        context = ssl.create_default_context(
            cafile=options.get("ssl_ca_certs"), capath=options.get("ssl_ca_path")
        )
        if "ssl_certfile" in options:
            files = options["ssl_certfile"], options.get("ssl_keyfile")
            context.load_cert_chain(*files, password=options.get("ssl_password"))
    except OSError as error:
        message = f"the certificates of the rediss: URL could not be read: {error}"
        raise ConfigurationError(message, backend="redis") from error
    context.check_hostname = wanted == "required" and named
    context.verify_mode = ssl.CERT_REQUIRED if wanted == "required" else ssl.CERT_NONE
    return context
