"""How a blocking thread gets a connection to a node without waiting for it.

Connecting to a known address does not block. But looking up a name may take seconds, and asking
Sentinels and a TLS handshake block too: another thread does that, or one node in trouble would hold
up the conversation with all others, renewals included.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from time import monotonic
from typing import Any, Final

from locknut.backends.redlock.nodes import Node
from locknut.drivers.redis.connections import BlockingDial, Connection
from locknut.drivers.redis.endpoints import Endpoint, FixedEndpoint
from locknut.drivers.redis.settings import Settings
from locknut.runtimes import cpython, sockets
from locknut.runtimes.threads import run

Address = tuple[int, Any]
"""A family, and what a socket of that family connects to."""


HANDSHAKE: Final = 0.3
"""Seconds for each blocking step of making a connection: a node that hangs in it costs this once,
and is then left alone for a while."""


def address_of(node: Node) -> Address | None:
    """The address to connect to at once; None if that takes a lookup, Sentinels or TLS."""
    settings = node.settings
    if settings.tls is not None or not isinstance(node.place, FixedEndpoint):
        return None
    if settings.path:
        return socket.AF_UNIX, settings.path
    with suppress(ValueError):
        ip_address(settings.host)
        return resolved(settings)[0]
    return node.address


def resolved(settings: Settings) -> list[Address]:
    found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def connecting(address: Address) -> socket.socket:
    """A non-blocking socket that is connecting to this address."""
    family, place = address
    sock = sockets.open_socket(family)
    try:
        _hurry(sock, family)
        sock.setblocking(False)
        with suppress(BlockingIOError):
            sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return sock


def _hurry(sock: socket.socket, family: int) -> None:
    if family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _connected(address: Address, settings: Settings) -> socket.socket:
    """The connection, with TLS where that is wanted; this one waits."""
    family, place = address
    until = monotonic() + settings.connect_limit
    sock = sockets.open_socket(family)
    try:
        _hurry(sock, family)
        sock.settimeout(settings.connect_limit)
        sock.connect(place)
        if settings.tls is not None:
            sock.settimeout(max(0.001, until - monotonic()))
            sock = sockets.encrypted(sock, settings.tls, settings.host)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class BackgroundDial:
    """One connection that another thread makes; `ring` is called when it is ready or has failed."""

    def __init__(self, node: Node, ring: Callable[[], None]):
        self._node = node
        self._ring = ring
        self._socket: socket.socket | None = None
        self._abandoned = False
        self.error: Exception | None = None
        self.done = False

    def start(self) -> None:
        """OSError: there is no thread to be had for it."""
        # Not waited for: an interrupt (Ctrl-C) in that wait would come out as another error.
        thread = cpython.UnawaitedThread(target=self._run, name="locknut-dial", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise ConnectionError(str(error)) from error

    def _run(self) -> None:
        try:
            self._socket = self._open()
        except Exception as error:  # noqa: BLE001  # whoever waits for the connection gets it
            self.error = error
        self.done = True
        if self._abandoned:
            self.abandon()
        else:
            self._ring()

    def _open(self) -> socket.socket:
        node, settings = self._node, located(self._node.place)
        failed = OSError(f"{settings.host} has no address")
        for address in self._addresses(settings):
            try:
                sock = _connected(address, settings)
            except OSError as error:
                failed = error
                continue
            if isinstance(node.place, FixedEndpoint) and not settings.path:
                node.address = node.last_address = address
            return sock
        raise failed

    def _addresses(self, settings: Settings) -> list[Address]:
        if settings.path:
            return [(socket.AF_UNIX, settings.path)]
        try:
            return resolved(settings)
        except OSError:
            if self._node.last_address is None:
                raise
            return [self._node.last_address]  # the name service may be down: where it last was

    def take(self) -> socket.socket | None:
        """The connected socket, which the caller owns from now on."""
        taken, self._socket = self._socket, None
        return taken

    def abandon(self) -> None:
        """Close it: nobody waits for it any more."""
        self._abandoned = True
        taken = self.take()
        if taken is not None:
            taken.close()


def located(place: Endpoint) -> Settings:
    """Where the node is now. Sentinels are asked for their master, for a short time only."""
    if isinstance(place, FixedEndpoint):
        return place.settings
    master: Connection = run(place.reach(_QUICK))
    master.close()
    return place.settings.at(master.settings.host, master.settings.port)


class _Quickly(BlockingDial):
    async def open(self, settings: Settings, *, curious: bool = False) -> Connection:
        brief = replace(settings, limit=HANDSHAKE, connect_limit=HANDSHAKE)
        return await super().open(brief, curious=curious)


_QUICK: Final = _Quickly()
