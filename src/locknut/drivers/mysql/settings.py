"""Where the server is, who we are there, how long it may take, and how many connections we make."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from locknut.core import validation
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

PORT: Final = 3306
CONNECTIONS: Final = 8
FILES: Final = ("ssl_ca", "ssl_cert", "ssl_key")
OPTIONS: Final = (
    "connections",
    "unix_socket",
    "read_default_file",
    "ssl",
    "ssl_verify_identity",
    *FILES,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """One database of one server. The password is not in its repr."""

    scheme: str
    """`mysql` or `mariadb`, as the URL has it: for messages."""
    address: str
    """What may be shown."""
    database: str
    limit: float
    """Seconds that connecting, or a command, may take."""
    connections: int = CONNECTIONS
    """At most so many for commands at a time."""
    driver: dict[str, Any] = field(default_factory=dict, repr=False)
    """What goes to PyMySQL as it is."""


def read(url: Url, limit: float) -> Settings:
    """The settings of a URL whose options are all known."""
    database = url.path.strip("/")
    if not database or "/" in database:
        raise wrong(url, f"a database is needed: {url.scheme}://user:password@host/database")
    login, hosts = url.servers()
    if len(hosts) != 1:
        raise wrong(url, "one server is needed; several hosts in the URL are not supported")
    host, port = _host(url, hosts[0])
    user, colon, password = login.partition(":")
    driver: dict[str, Any] = {"user": unquote(user) or None, "database": database}
    driver["password"] = unquote(password) if colon else os.environ.get("MYSQL_PWD", "")
    address = f"{host}:{port}/{database}"
    if "unix_socket" in url.options:
        driver["unix_socket"] = url.options["unix_socket"]
        address = f"{driver['unix_socket']}/{database}"
    else:
        driver |= {"host": host, "port": port}
    if "read_default_file" in url.options:
        driver["read_default_file"] = str(_file(url, "read_default_file"))
        if not colon and "MYSQL_PWD" not in os.environ:
            del driver["password"]
    return Settings(
        url.scheme,
        address,
        database,
        limit,
        _connections(url),
        {**driver, **_tls(url)},
    )


def _host(url: Url, text: str) -> tuple[str, int]:
    """A name or address, and the port; `[::1]:3306` for addresses of the sixth version."""
    name, bracket, rest = text.rpartition("]")
    if bracket:
        host, port = name.lstrip("["), rest.lstrip(":")
    else:
        host, _, port = text.partition(":")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise wrong(url, "a host with a port is needed; the port is a number below 65536")
    return validation.host(host, url.scheme) or "localhost", int(port or PORT)


def _connections(url: Url) -> int:
    text = url.options.get("connections", str(CONNECTIONS))
    if not (text.isdecimal() and 0 < int(text) <= 1000):
        raise wrong(url, f"connections must be a number from 1 to 1000, got {text!r}")
    return int(text)


def _tls(url: Url) -> dict[str, Any]:
    """Without a word about it no TLS: PyMySQL would try it, but check nothing. The context is made
    once, because reading the certificates of the system takes longer than connecting.
    """
    files = {name: str(_file(url, name)) for name in FILES if name in url.options}
    verify = _flag(url, "ssl_verify_identity", default=True)
    if not files and not _flag(url, "ssl", default=False):
        if "ssl_verify_identity" in url.options:
            raise wrong(url, "ssl_verify_identity= needs ssl=yes, or a file: ssl_ca=")
        return {"ssl_disabled": True}
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
        # Certificates that MySQL makes by itself lack what Python 3.13 wants to see in them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = verify
        if "ssl_cert" in files:
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"))
    except OSError as error:
        raise wrong(url, f"the certificates cannot be used: {error}") from error
    return {"ssl": context}


def _file(url: Url, option: str) -> Path:
    path = Path(url.options[option]).expanduser()
    if not path.is_file():
        raise wrong(url, f"{option}={str(path)!r}: there is no such file")
    return path


def _flag(url: Url, option: str, *, default: bool) -> bool:
    text = url.options.get(option, "yes" if default else "no")
    if text not in ("yes", "no"):
        raise wrong(url, f"{option} must be yes or no, got {text!r}")
    return text == "yes"


def wrong(url: Url, message: str) -> ConfigurationError:
    return ConfigurationError(message, backend=url.scheme)
