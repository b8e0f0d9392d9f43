"""What the URLs of several engines say in the same words: a host with its port, and TLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from locknut.core import validation
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl

TLS_OPTIONS: Final = (
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
    "ssl_check_hostname",
)


def address(text: str, port: int, scheme: str) -> tuple[str, int]:
    """Take `host`, `host:port`, `[::1]` or `[::1]:port` apart; `port` counts if none is given."""
    host, _, rest = text.partition("]") if text.startswith("[") else ("", "", "")
    if host:
        host, given = host[1:], rest.removeprefix(":")
    else:
        host, _, given = text.partition(":")
    if given and not (given.isdecimal() and 0 < int(given) < 65536):
        message = f"the port in the {scheme}: URL must be a number below 65536"  # maybe a password
        raise ConfigurationError(message, backend=scheme)
    return validation.host(host, scheme) or "localhost", int(given or port)


def tls(options: Mapping[str, str], scheme: str) -> ssl.SSLContext:
    """Certificates are always checked, and so is the server's name, unless the URL says not to."""
    import ssl  # not every engine has TLS

    named = options.get("ssl_check_hostname", "true")
    if named not in {"true", "false"}:
        message = f"ssl_check_hostname={named!r}: expected true or false"
        raise ConfigurationError(message, backend=scheme)
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if "ssl_certfile" in options:
            files = options["ssl_certfile"], options.get("ssl_keyfile")
            context.load_cert_chain(*files, password=options.get("ssl_password"))
    except OSError as error:
        message = f"the files of the ssl_ options could not be read: {error}"
        raise ConfigurationError(message, backend=scheme) from error
    context.check_hostname = named == "true"
    return context
