"""Serving the dashboard by itself: where it listens, who is let in, and what it says about that."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import uvicorn

from locknut.dashboard.access import LOOPBACK, Access
from locknut.dashboard.application import Dashboard
from locknut.errors import ConfigurationError

ENOUGH = 16
"""Characters of a passphrase that cannot be guessed."""
EVERYWHERE = frozenset({"0.0.0.0", "[::]"})  # noqa: S104  # recognised, not chosen


class Listening(NamedTuple):
    """What `locknut dash` was asked for."""

    host: str
    port: int
    allow_break: bool = False
    passphrase: str | None = None
    names: Sequence[str] = ()
    """Further names that browsers may call us by."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def in_address(host: str) -> str:
    """As it stands in the address of a page, where a browser shortens what is IPv6."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host.strip("[]"))
        return f"[{address.compressed}]" if address.version == 6 else address.compressed
    return host


def access_for(asked: Listening) -> tuple[Access, str | None]:
    """The rules, and the passphrase to show if one was made up.

    Other users of this machine reach the loopback address as well. So a dashboard that can break
    locks always asks for a passphrase, and one that other machines reach needs one of yours.
    """
    passphrase, made = asked.passphrase, None
    if passphrase is not None and len(passphrase) < ENOUGH:
        raise ConfigurationError(f"the passphrase must have at least {ENOUGH} characters")
    if passphrase is None and not is_loopback(asked.host):
        raise ConfigurationError(
            f"{asked.host} can be reached by other machines: give a passphrase (--token-file FILE)"
        )
    if passphrase is None and asked.allow_break:
        passphrase = made = secrets.token_urlsafe(18)
    shown = in_address(asked.host)
    everywhere = shown in EVERYWHERE
    own = {socket.gethostname(), socket.getfqdn(), *_addresses()} if everywhere else {shown}
    hosts = frozenset({*LOOPBACK, *own, *asked.names})
    return Access(passphrase=passphrase, hosts=hosts, allow_break=asked.allow_break), made


def _addresses() -> set[str]:
    """The addresses of this machine, as browsers of others write them."""
    with suppress(OSError):
        found = {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)}
        return set(map(in_address, found))
    return set()


def bind(host: str, port: int) -> socket.socket:
    """The socket, before anything else is done: a port that is taken is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(128)  # whoever is told the address may come before uvicorn is ready
    except OSError as taken:
        listener.close()
        raise ConfigurationError(f"cannot listen at {host}:{port}: {taken.strerror}") from taken
    return listener


def serve(dashboard: Dashboard, listener: socket.socket, ready: Callable[[], object]) -> None:
    """Until a signal ends it. Open pages do not hold up the end."""
    settings = uvicorn.Config(
        dashboard,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )
    dashboard.start()
    try:
        ready()
        uvicorn.Server(settings).run(sockets=[listener])
    finally:
        dashboard.close()
        listener.close()
