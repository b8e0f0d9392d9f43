"""From a user's own `KazooClient` to settings: where it leads, as whom, for how long.

His session stays his: a hold lives as long as the session that made it, and only of our own we know
what its leader vouches for. What his client can do and this cannot is refused.
"""

from __future__ import annotations

import ssl
from typing import Any

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from locknut.backends.zookeeper.settings import Settings, session_timeout
from locknut.errors import ConfigurationError


def settings_of(client: Any) -> Settings:
    """With kazoo's names, so that `client.Lock` knows our nodes, as we know all."""
    login = _login(client)
    return Settings(
        hosts=tuple(_host(*each) for each in client.hosts),
        root=client.chroot,
        session_timeout=session_timeout(client._session_timeout / 1000),
        layout="kazoo",
        login=login,
        private=_private(client, login),
        tls=_context(client) if client.use_ssl else None,
    )


def _host(name: str, port: int) -> str:
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _login(client: Any) -> str:
    logins = list(client.auth_data)
    if client._connection.sasl_options is not None or len(logins) > 1:
        raise _refused("more than one login, or SASL")
    if not logins:
        return ""
    ((scheme, credential),) = logins
    if scheme != "digest":
        raise _refused(f"a login by {scheme}")
    return str(credential)


def _private(client: Any, login: str) -> bool:
    """As the nodes that the client makes itself."""
    if client.default_acl in (None, OPEN_ACL_UNSAFE):
        return False
    if client.default_acl == CREATOR_ALL_ACL and login:
        return True
    raise _refused("a default_acl other than OPEN_ACL_UNSAFE or, with a login, CREATOR_ALL_ACL")


def _context(client: Any) -> ssl.SSLContext:
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


def _refused(what: str) -> ConfigurationError:
    message = f"a client with {what} cannot be used"
    return ConfigurationError(message, backend="zookeeper")
