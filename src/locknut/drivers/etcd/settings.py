"""What an etcd URL says: where the members are, who we are there, how long a command may take."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from locknut.core import validation
from locknut.drivers import server_urls
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

NAME: Final = "etcd"
PORT: Final = 2379
COMMAND_LIMIT: Final = 2.0
"""Seconds after which a command counts as unanswered. A member without a leader takes seven."""
OPTIONS: Final = ("socket_timeout", "socket_connect_timeout", *server_urls.TLS_OPTIONS)


@dataclass(frozen=True, slots=True)
class Settings:
    """One cluster, as it is to be spoken to. The secrets are not in its repr."""

    hosts: tuple[tuple[str, int], ...]
    limit: float = COMMAND_LIMIT
    connect_limit: float = COMMAND_LIMIT
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """What may be shown."""
        return ",".join(shown(each) for each in self.hosts)


def shown(host: tuple[str, int]) -> str:
    name, port = host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def read(url: Url, others: Sequence[str] = ()) -> Settings:
    """The settings of a URL. `others` are options that its engine reads by itself, as it does with
    the path.
    """
    validation.check_options(NAME, url.options, (*others, *OPTIONS))
    login, hosts = url.servers()
    user, _, password = login.partition(":")
    if login and not (user and password):
        raise _wrong("a login needs both: etcd://user:password@host")
    secure = url.scheme == "etcd+tls"
    if not secure and any(each in url.options for each in server_urls.TLS_OPTIONS):
        raise _wrong("options that begin with ssl_ need an etcd+tls:// URL")
    limit = _seconds(url, "socket_timeout", COMMAND_LIMIT)
    return Settings(
        hosts=tuple(server_urls.address(each, PORT, NAME) for each in hosts),
        limit=limit,
        connect_limit=_seconds(url, "socket_connect_timeout", limit),
        username=unquote(user),
        password=unquote(password),
        tls=_tls(url.options) if secure else None,
    )


def _seconds(url: Url, option: str, default: float) -> float:
    text = url.options.get(option)
    seconds = default if text is None else validation.seconds(text, option)
    if not 0.05 <= seconds <= 60:
        raise _wrong(f"{option} must be between 50 ms and 1 min, got {text!r}")
    return seconds


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    context = server_urls.tls(options, NAME)
    context.set_alpn_protocols(["h2"])
    return context


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, backend=NAME)
