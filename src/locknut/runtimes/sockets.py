"""Which sockets this process has opened, so that a forked child closes its copies at once.

A copy that stays open keeps a connection alive after its owner has died, and whoever used it would
talk into the conversation of another process. A socket is opened and noted under one mutex, which
the fork takes: none is missed.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    import ssl

S = TypeVar("S", bound=socket.socket)
_mutex = threading.RLock()
"""Re-entrant: a finalizer may open one in the middle of another's opening."""
_ours: WeakSet[socket.socket] = WeakSet()


def open_socket(family: int) -> socket.socket:
    """An unconnected one."""
    with _mutex:
        return note(socket.socket(family))


def open_pair() -> tuple[socket.socket, socket.socket]:
    """Two that are connected to each other."""
    with _mutex:
        one, other = socket.socketpair()
        return note(one), note(other)


def connected(address: tuple[str, int], timeout: float) -> socket.socket:
    """As `socket.create_connection`: to the first of the host's addresses that answers."""
    failed: OSError | None = None
    for family, _, _, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        made = open_socket(family)
        try:
            made.settimeout(timeout)
            made.connect(place)
        except OSError as error:
            made.close()
            failed = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failed or OSError(f"{address[0]} has no address")


def encrypted(made: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """The same connection with TLS around it. That has the descriptor from now on."""
    with _mutex:
        wrapped = tls.wrap_socket(made, server_hostname=host, do_handshake_on_connect=False)
        note(wrapped)
    try:
        wrapped.do_handshake()
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def note(made: S) -> S:
    """One that was just opened."""
    _ours.add(made)
    return made


def note_transport(made: object) -> None:
    """The socket of a loop's connection, where it is one of asyncio's own."""
    real = getattr(made, "_sock", None)
    if isinstance(real, socket.socket):
        note(real)


def close_inherited() -> None:
    """In a forked child: without a word to the other end, which is the parent's to talk to."""
    global _mutex  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _mutex = threading.RLock()
    for each in list(_ours):
        each.close()
    _ours.clear()


def _before() -> None:
    _mutex.acquire()


def _in_parent() -> None:
    _mutex.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent)
