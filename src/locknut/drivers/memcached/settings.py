"""What a memcached URL says: where the server is, who we are there, how long a command may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from locknut.core import validation
from locknut.drivers.server_urls import address
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

PORT: Final = 11211
COMMAND_LIMIT: Final = 2.0
"""Seconds after which a command counts as unanswered."""
OPTIONS: Final = ("socket_timeout", "socket_connect_timeout", "restart_delay")
LONGEST_DELAY: Final = 30 * 86400.0
RESTART_DELAY: Final = 2.0
"""A server that is younger grants nothing. Its start is known to the second, so this is the least
that keeps two starts within one second from giving the same number."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One server, as it is to be spoken to. The secrets are not in its repr."""

    host: str
    port: int
    path: str
    """Of a unix socket; empty where host and port count."""
    limit: float
    connect_limit: float
    restart_delay: float
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def place(self) -> str:
        """What may be shown."""
        return self.path or f"{self.host}:{self.port}"


def read(url: Url) -> Settings:
    """The settings of a URL; what it should not say is refused here."""
    validation.check_options("memcached", url.options, OPTIONS)
    login, hosts = url.servers()
    if len(hosts) > 1:
        raise _wrong(
            "a memcached: URL has one host: with several, clients that disagree about which server "
            "has a name would both get its lock"
        )
    unix = url.scheme == "memcached+unix"
    if unix and not (url.path.startswith("/") and not hosts[0]):
        raise _wrong("a memcached+unix: URL has the socket's path: memcached+unix:///run/mc.sock")
    if not unix and url.path not in {"", "/"}:
        raise _wrong("a memcached: URL has no path; namespace= keeps names apart")
    user, _, password = login.partition(":")
    limit = _limit(url, "socket_timeout", COMMAND_LIMIT)
    host, port = ("", 0) if unix else address(hosts[0], PORT, "memcached")
    return Settings(
        host=host,
        port=port,
        path=url.path if unix else "",
        limit=limit,
        connect_limit=_limit(url, "socket_connect_timeout", limit),
        restart_delay=_restart_delay(url),
        username=unquote(user),
        password=unquote(password),
    )


def _limit(url: Url, option: str, default: float) -> float:
    """Nobody can answer at once, and no thread may wait for ever."""
    text = url.options.get(option)
    limit = default if text is None else validation.seconds(text, option)
    if not 0.05 <= limit <= 3600:
        raise _wrong(f"{option} must be between 50 ms and 1 h")
    return limit


def _restart_delay(url: Url) -> float:
    delay = validation.seconds(url.options.get("restart_delay", RESTART_DELAY), "restart_delay")
    if delay > LONGEST_DELAY:
        raise _wrong("restart_delay must be at most 30 days, as the longest ttl is")
    return max(RESTART_DELAY, delay)


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, backend="memcached")
