"""From a user's own client of redis-py (or valkey-py) to places: its settings, not its connections.

The client's connections are not used: commands that block, subscribe or wait for replicas would be
in the user's way. What the client can do and we cannot is refused, so nothing is silently weaker.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from locknut.drivers.redis.cluster.routing import Cluster
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.drivers.redis.sentinel import Sentinels
from locknut.drivers.redis.settings import COMMAND_LIMIT, Settings, bounded
from locknut.errors import ConfigurationError

_REFUSED: Final = (
    "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled",
    "ssl_ocsp_context",
    "ssl_ocsp_expected_cert",
    "ssl_include_verify_flags",
    "ssl_exclude_verify_flags",
)
_VERIFYING: Final[dict[object, bool]] = {
    "required": True,
    "optional": True,
    "none": False,
    None: False,
    ssl.CERT_REQUIRED: True,
    ssl.CERT_OPTIONAL: True,
    ssl.CERT_NONE: False,
}


def endpoint_of(client: Any) -> FixedEndpoint | Sentinels | Cluster:
    """Where this client leads: one server, one behind Sentinels, or a cluster."""
    if hasattr(client, "nodes_manager"):
        return _cluster(client.nodes_manager)
    pool = getattr(client, "connection_pool", None)
    if pool is None or not hasattr(pool, "connection_kwargs"):
        message = f"a client with a connection pool is needed, got {type(client).__name__}"
        raise ConfigurationError(message, backend="redis")
    if hasattr(pool, "sentinel_manager"):
        return _sentinels(pool)
    return FixedEndpoint(_settings(pool.connection_kwargs, tls=_encrypts(pool.connection_class)))


def _sentinels(pool: Any) -> Sentinels:
    if not pool.is_master:
        message = "this client reads from replicas: hand in one from master_for(...)"
        raise ConfigurationError(message, backend="redis")
    chosen = {
        "min_other_sentinels": getattr(pool.sentinel_manager, "min_other_sentinels", 0),
        "force_master_ip": getattr(pool.sentinel_manager, "_force_master_ip", None),
    }
    for option, value in chosen.items():
        if value:
            message = f"a Sentinel client with {option} cannot be used: connect with a URL"
            raise ConfigurationError(message, backend="redis")
    known = [
        _settings(each.connection_kwargs, tls=_encrypts(each.connection_class))
        for each in (one.connection_pool for one in pool.sentinel_manager.sentinels)
    ]
    master = _settings(pool.connection_kwargs, tls=_encrypts(pool.connection_class))
    return Sentinels(pool.service_name, master, known)


def _cluster(nodes: Any) -> Cluster:
    if getattr(nodes, "address_remap", None) is not None:
        raise ConfigurationError("a client with address_remap cannot be used", backend="redis")
    options = nodes.connection_kwargs
    encrypted = bool(options.get("ssl")) or _encrypts(options.get("connection_class", object))
    common = _settings(options, tls=encrypted)
    return Cluster([common.at(each.host, each.port) for each in nodes.startup_nodes.values()])


def _encrypts(connection_class: type) -> bool:
    return any(each.__name__ == "SSLConnection" for each in connection_class.__mro__)


def _settings(options: Mapping[str, Any], *, tls: bool) -> Settings:
    limit = _limit(options, "socket_timeout", COMMAND_LIMIT)
    return Settings(
        host=options.get("host") or "localhost",
        port=int(options.get("port") or 6379),
        path=options.get("path") or "",
        db=int(options.get("db") or 0),
        limit=limit,
        connect_limit=_limit(options, "socket_connect_timeout", limit),
        username=options.get("username") or "",
        password=options.get("password") or "",
        provider=options.get("credential_provider"),
        tls=_context(options) if tls else None,
    )


def _limit(options: Mapping[str, Any], option: str, default: float) -> float:
    chosen = options.get(option)
    return default if chosen is None else bounded(float(chosen), option)


def _verifies(options: Mapping[str, Any]) -> bool:
    """For a client "optional" means "required": the server always has a certificate to show."""
    wanted = options.get("ssl_cert_reqs", "required")
    if wanted not in _VERIFYING:
        message = f"a client with ssl_cert_reqs={wanted!r} cannot be used"
        raise ConfigurationError(message, backend="redis")
    return _VERIFYING[wanted]


def _context(options: Mapping[str, Any]) -> ssl.SSLContext:
    for option in _REFUSED:
        if options.get(option):
            message = f"a client with {option} cannot be used: connect with a URL"
            raise ConfigurationError(message, backend="redis")
    required = _verifies(options)
    try:
        context = ssl.create_default_context(
            cafile=options.get("ssl_ca_certs"),
            capath=options.get("ssl_ca_path"),
            cadata=options.get("ssl_ca_data"),
        )
        if options.get("ssl_certfile"):
            files = options["ssl_certfile"], options.get("ssl_keyfile")
            context.load_cert_chain(*files, password=options.get("ssl_password"))
    except OSError as error:
        message = f"the certificates of this client could not be read: {error}"
        raise ConfigurationError(message, backend="redis") from error
    context.check_hostname = required and bool(options.get("ssl_check_hostname", True))
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_NONE
    if options.get("ssl_min_version") is not None:
        context.minimum_version = options["ssl_min_version"]
    if options.get("ssl_ciphers"):
        context.set_ciphers(options["ssl_ciphers"])
    return context
