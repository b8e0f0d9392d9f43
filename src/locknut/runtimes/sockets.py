"""Which sockets this process has opened, so that a forked child closes its copies at once.

A copy that stays open keeps a connection alive after its owner has died, and a child that used it
would talk into the conversation of another process. A socket is opened and noted under one mutex,
which the fork takes: none is missed.
"""

from __future__ import annotations

import _socket
import os
import socket
import struct
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from locknut.runtimes import cpython, host_names
from locknut.runtimes.cpython import members

if TYPE_CHECKING:
    import ssl

S = TypeVar("S", bound=socket.socket)
_mutex = threading.RLock()
"""Re-entrant: a finalizer may open one in the middle of another's opening."""
_ours: WeakSet[socket.socket] = WeakSet()
_descriptors: WeakKeyDictionary[object, tuple[int, tuple[int, int]]] = WeakKeyDictionary()
"""The numbers of sockets that a loop keeps to itself, as uvloop does, and which files they are."""


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
    """To the first of the host's addresses that answers. They share the time with the look-up of
    its name, so that one which is silent leaves some to the others, and all take no longer. The
    socket has the rest of that time as its limit: a TLS handshake (`encrypted`) gets no more.
    """
    failed: OSError | None = None
    until = monotonic() + timeout
    found = host_names.addresses(*address, timeout)
    for at, (family, _, _, _, place) in enumerate(found):
        made = open_socket(family)
        try:
            made.settimeout(max(0.001, until - monotonic()) / (len(found) - at))
            made.connect(place)
        except OSError as error:
            made.close()
            failed = error
        except BaseException:
            made.close()
            raise
        else:
            made.settimeout(max(0.001, until - monotonic()))
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


def set_limit(made: socket.socket, limit: float) -> None:
    """Let the kernel keep the time limit of one without TLS: Python's own costs a poll() before
    every call. What takes longer raises BlockingIOError. What gevent puts in the place of a socket
    never waits in the kernel, so there the limit is Python's own.
    """
    if not isinstance(made, _socket.socket):
        made.settimeout(limit)
        return
    seconds = int(limit)
    packed = struct.pack("ll", seconds, max(1, int((limit - seconds) * 1_000_000)))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, packed)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, packed)


def note(made: S) -> S:
    """One that was just opened."""
    _ours.add(made)
    return made


def note_transport(made: Any, user: object) -> None:
    """Note what a loop shows as the socket of a connection, for as long as its user lives."""
    real = cpython.socket_below(made)
    if isinstance(real, socket.socket):
        note(real)
    else:
        note_descriptor(made.fileno(), user)


def note_descriptor(number: int, user: object) -> None:
    """Note a socket that a library keeps to itself, for as long as its user lives."""
    _descriptors[user] = number, _which(number)


def close_inherited() -> None:
    """In a forked child: without a word to the other end, which is the parent's to talk to."""
    global _mutex  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _mutex = threading.RLock()
    for each in members(_ours):
        each.close()
    for number, which in list(_descriptors.values()):
        with suppress(OSError):
            if _which(number) == which:
                _put_nothing_at(number)
    _ours.clear()
    _descriptors.clear()


def _which(number: int) -> tuple[int, int]:
    """What has this number now: when a socket is closed, another file gets its number."""
    status = os.fstat(number)
    return status.st_dev, status.st_ino


def _put_nothing_at(number: int) -> None:
    """The number stays taken: a copy of the parent's loop is here too, and if ever it closes what
    it knows by this number, or writes there, that must not hit another file.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _before() -> None:
    _mutex.acquire()


def _in_parent() -> None:
    _mutex.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent)
