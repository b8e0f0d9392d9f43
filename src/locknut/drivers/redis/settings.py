"""What a Redis URL says: where servers are, who we are there, and how long a command may take."""

from __future__ import annotations

import asyncio
import math
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from locknut.core import validation
from locknut.drivers.redis.url_parts import UrlParts, take_apart
from locknut.errors import BackendUnavailable, ConfigurationError
from locknut.runtimes.deadlines import hurried, share

if TYPE_CHECKING:
    from locknut.urls import Url

COMMAND_LIMIT: Final = 2.0
"""Seconds after which a command counts as unanswered."""
REPLICAS_LIMIT: Final = 1.0
MOST_REPLICAS: Final = 100
_SCHEMES: Final = {
    "redis": "redis",
    "rediss": "rediss",
    "redis+unix": "unix",
    "valkey": "redis",
    "valkeys": "rediss",
    "valkey+unix": "unix",
}
"""What such a URL is called where it is taken apart."""
_TLS: Final = (
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_cert_reqs",
    "ssl_check_hostname",
)
OPTIONS: Final = (
    "db",
    "socket_timeout",
    "socket_connect_timeout",
    "wait_replicas",
    "wait_timeout",
    *_TLS,
)


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
    replicas: int = 0
    """How many have to confirm a grant before it counts."""
    replicas_limit: float = 0.0
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    provider: Any = field(default=None, repr=False)
    """Of a user's own client: asked for user and password for every new connection."""

    @property
    def place(self) -> str:
        """What may be shown."""
        return self.path or f"{self.host}:{self.port}"

    def signed(self) -> Settings:
        """With the user and password of this moment, where a provider has them."""
        return self if self.provider is None else self._with(_ask(self.provider))

    async def signed_on_loop(self) -> Settings:
        """The same without holding up the loop, whatever the provider does."""
        if self.provider is None:
            return self
        kind, name = type(self.provider), "get_credentials_async"
        bases = [each for each in kind.__mro__ if name in vars(each)]
        if bases and bases[0].__name__ != "CredentialProvider":
            try:
                return self._with(await self.provider.get_credentials_async())
            except Exception as error:
                raise _unsigned(error) from error
        return self._with(await asyncio.to_thread(_ask, self.provider))

    def _with(self, known: tuple[str, ...]) -> Settings:
        *user, password = known
        return replace(self, username=user[0] if user else "", password=password)

    def in_turn(self, most: float = math.inf) -> Settings:
        """The settings for one of several servers that can be asked: `most` seconds at most, and a
        part of the caller's time (`deadlines`), so that a silent server leaves some to the others.
        """
        limits = min(self.limit, most), min(self.connect_limit, most)
        if hurried():
            limits = share(limits[0]), share(limits[1])
        return replace(self, limit=limits[0], connect_limit=limits[1])

    def at(self, host: str, port: int) -> Settings:
        """Another server that is spoken to in the same way."""
        return replace(self, host=host, port=port, path="")


def _ask(provider: Any) -> tuple[str, ...]:
    try:
        return tuple(provider.get_credentials())
    except Exception as error:
        raise _unsigned(error) from error


def _unsigned(error: Exception) -> BackendUnavailable:
    message = f"the credential provider failed: {type(error).__name__}"  # its text may be secret
    return BackendUnavailable(message, backend="redis")


def read_hosts(url: Url, port: int = 6379) -> list[Settings]:
    """Several servers, with commas between them, all spoken to as the URL says."""
    login, (first, *others) = url.servers()
    at = f"{login}@" if login else ""
    found = [read(type(url)(url.scheme, at + first, url.path, url.options), port)]
    for host in others:
        known = _parsed(type(url)(url.scheme, host), _SCHEMES[url.scheme])
        found.append(found[0].at(known.host or "localhost", known.port or port))
    return found


def read(url: Url, port: int = 6379) -> Settings:
    """The settings of a URL; what it should not say is refused here."""
    validation.check_options("redis", url.options, OPTIONS)
    scheme = _SCHEMES[url.scheme]
    if scheme != "rediss" and any(each in url.options for each in _TLS):
        message = "options that begin with ssl_ need a rediss:// URL, or nothing is encrypted"
        raise ConfigurationError(message, backend="redis")
    limit = _limit(url, "socket_timeout", COMMAND_LIMIT)
    known = _parsed(url, scheme)
    return Settings(
        host=known.host or "localhost",
        port=known.port or port,
        path=known.path,
        db=known.db,
        limit=limit,
        connect_limit=_limit(url, "socket_connect_timeout", limit),
        replicas=_replicas(url),
        replicas_limit=_replicas_limit(url, limit),
        username=known.username,
        password=known.password,
        tls=_context(url.options) if scheme == "rediss" else None,
    )


def _parsed(url: Url, scheme: str) -> UrlParts:
    database = url.options.get("db")
    query = f"?{urlencode({'db': database})}" if database is not None else ""
    if scheme != "unix" and not url.path.strip("/").isdecimal() and url.path.strip("/"):
        message = "the path of a redis: URL is the number of a database"
        raise ConfigurationError(message, backend="redis")
    try:
        parts = take_apart(f"{scheme}://{url.netloc}{quote(url.path)}{query}")
    except ValueError as error:
        raise ConfigurationError(f"the redis: URL is wrong: {error}", backend="redis") from None
    validation.host(parts.host, "redis")
    return parts


def _limit(url: Url, option: str, default: float) -> float:
    text = url.options.get(option)
    limit = default if text is None else validation.seconds(text, option)
    return bounded(limit, option)


def bounded(limit: float, option: str) -> float:
    """A time limit that is neither too short for an answer nor as good as none."""
    if not 0.05 <= limit <= 3600:
        raise ConfigurationError(f"{option} must be between 50 ms and 1 h", backend="redis")
    return limit


def _replicas(url: Url) -> int:
    text = url.options.get("wait_replicas", "0")
    if not text.isdecimal() or int(text) > MOST_REPLICAS:
        message = f"wait_replicas must be a number from 0 to {MOST_REPLICAS}"
        raise ConfigurationError(message, backend="redis")
    return int(text)


def _replicas_limit(url: Url, limit: float) -> float:
    """Answers that wait for replicas have to come before the command counts as unanswered."""
    if "wait_timeout" not in url.options:
        return min(REPLICAS_LIMIT, limit / 2)
    if "wait_replicas" not in url.options:
        raise ConfigurationError("wait_timeout needs wait_replicas", backend="redis")
    chosen = validation.seconds(url.options["wait_timeout"], "wait_timeout")
    if not 0.001 <= chosen <= limit / 2:
        message = f"wait_timeout must be between 1 ms and half of socket_timeout ({limit / 2:g} s)"
        raise ConfigurationError(message, backend="redis")
    return chosen


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
