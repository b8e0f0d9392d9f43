"""Where the servers are, where locks stand there, who we are and how long a session lasts.

The settings come from a URL, or from the user's own `KazooClient`. That client keeps its session to
itself: a hold lives as long as the session that made it, and we know only of our own sessions what
the leader vouches for. A client that does more than this engine can do is refused.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from locknut.backends.zookeeper import node_names
from locknut.core import validation
from locknut.drivers import server_urls
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

SESSION_TIMEOUT: Final = 10.0
PORT: Final = 2181
LAYOUTS: Final = ("curator", "kazoo")
_OPTIONS: Final = ("session_timeout", "layout", "acl", *server_urls.TLS_OPTIONS)


@dataclass(frozen=True, slots=True)
class Settings:
    """One ensemble, as it is to be spoken to. The secrets are not in its repr."""

    hosts: tuple[str, ...]
    root: str
    """The path under which everything stands; empty for the servers' own root."""
    session_timeout: float = SESSION_TIMEOUT
    layout: str = "curator"
    login: str = field(default="", repr=False)
    """user:password, for digest authentication."""
    private: bool = False
    """Whether only the user that made a node may touch it."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """What may be shown."""
        return f"{','.join(self.hosts)}{self.root}"


def from_url(url: Url) -> Settings:
    """The settings of a URL; what it should not say is refused here."""
    validation.check_options("zookeeper", url.options, _OPTIONS)
    login, hosts = url.servers()
    user, _, password = login.partition(":")
    if login and not (user and password):
        raise _wrong("digest authentication needs both: zookeeper://user:password@host")
    secure = url.scheme == "zookeeper+tls"
    if not secure and any(each in url.options for each in server_urls.TLS_OPTIONS):
        raise _wrong("options that begin with ssl_ need a zookeeper+tls:// URL")
    return Settings(
        hosts=tuple(_host(each) for each in hosts),
        root=_root(url.path),
        session_timeout=session_timeout(url.options.get("session_timeout", SESSION_TIMEOUT)),
        layout=_one_of("layout", url.options.get("layout", LAYOUTS[0]), LAYOUTS),
        login=f"{unquote(user)}:{unquote(password)}" if login else "",
        private=_private(url, bool(login)),
        tls=server_urls.tls(url.options, "zookeeper") if secure else None,
    )


def _host(text: str) -> str:
    """With its port; `[::1]:2181` for addresses of the sixth version."""
    name = text or "localhost"
    bare = name.rpartition("]")[2] if name.startswith("[") else name
    host, colon, port = bare.rpartition(":")
    validation.host(host if colon else bare, "zookeeper")
    if not colon:
        return f"{name}:{PORT}"
    if not port.isdecimal() or not 0 < int(port) < 65536 or (":" in host):
        raise _wrong("a host with a port is needed; the port is a number below 65536")
    return name


def _root(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    return "".join(f"/{node_names.segment(part)}" for part in parts)


def session_timeout(given: str | float) -> float:
    timeout = validation.seconds(given, "session_timeout")
    if not 1 <= timeout <= 3600:
        raise _wrong(f"session_timeout must be between 1 s and 1 h, got {given!r}")
    return timeout


def _private(url: Url, logged_in: bool) -> bool:
    """A user who logs in keeps its locks to itself, unless the URL says otherwise."""
    chosen = _one_of("acl", url.options.get("acl", "creator" if logged_in else "open"), _ACLS)
    if chosen == "creator" and not logged_in:
        raise _wrong("acl=creator needs a user and a password in the URL")
    return chosen == "creator"


_ACLS: Final = ("open", "creator")


def _one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise _wrong(f"{option}={value!r}: expected {' or '.join(known)}")
    return value


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, backend="zookeeper")


def from_client(client: Any) -> Settings:
    """With kazoo's names, so that `client.Lock` knows our nodes, as we know all."""
    login = _client_login(client)
    return Settings(
        hosts=tuple(_client_host(*each) for each in client.hosts),
        root=client.chroot,
        session_timeout=session_timeout(client._session_timeout / 1000),
        layout="kazoo",
        login=login,
        private=_client_private(client, login),
        tls=_client_tls(client) if client.use_ssl else None,
    )


def _client_host(name: str, port: int) -> str:
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _client_login(client: Any) -> str:
    logins = list(client.auth_data)
    if client._connection.sasl_options is not None or len(logins) > 1:
        raise _cannot_use("more than one login, or SASL")
    if not logins:
        return ""
    ((scheme, credential),) = logins
    if scheme != "digest":
        raise _cannot_use(f"a login by {scheme}")
    return str(credential)


def _client_private(client: Any, login: str) -> bool:
    """As the nodes that the client makes itself."""
    if client.default_acl in (None, OPEN_ACL_UNSAFE):
        return False
    if client.default_acl == CREATOR_ALL_ACL and login:
        return True
    raise _cannot_use("a default_acl other than OPEN_ACL_UNSAFE or, with a login, CREATOR_ALL_ACL")


def _client_tls(client: Any) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=client.ca)
        if client.certfile:
            context.load_cert_chain(client.certfile, client.keyfile, client.keyfile_password)
    except OSError as error:
        message = f"the certificates of this client could not be read: {error}"
        raise ConfigurationError(message, backend="zookeeper") from error
    context.check_hostname = bool(client.verify_certs and client.check_hostname)
    context.verify_mode = ssl.CERT_REQUIRED if client.verify_certs else ssl.CERT_NONE
    return context


def _cannot_use(what: str) -> ConfigurationError:
    message = f"a client with {what} cannot be used"
    return ConfigurationError(message, backend="zookeeper")
