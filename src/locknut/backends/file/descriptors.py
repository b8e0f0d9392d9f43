"""Which descriptors this process owns, so that a forked child closes them and never unlocks (S17).

A forked child shares the kernel locks of its parent: unlocking there would free the parent's lock,
and keeping the descriptor would hold it after the parent was killed. So every descriptor is opened,
registered and closed under one mutex; the fork takes that mutex, the child closes what it finds.
(A child forked by foreign C code does not pass here: it keeps the lock until it ends or execs.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from locknut.runtimes.descriptors import away_from_standard

if TYPE_CHECKING:
    import socket


class Forgetful(Protocol):
    """Something that remembers descriptors, and must forget them in a forked child."""

    def forget(self) -> None: ...


# Re-entrant: the collector may drop an engine, and close its descriptors, amid an open.
_mutex = threading.RLock()
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_owned: dict[int, socket.socket | None] = {}
_rememberers: WeakSet[Forgetful] = WeakSet()


def opened(open_one: Callable[[], int]) -> int:
    """Open a descriptor and own it, with no fork in between."""
    with _mutex:
        fd = away_from_standard(open_one())
        _owned[fd] = None
        return fd


def open_file(path: str, flags: int, mode: int = 0o600, dir_fd: int | None = None) -> int:
    return opened(lambda: os.open(path, flags | _CLOEXEC, mode, dir_fd=dir_fd))


def open_socket() -> socket.socket:
    """An unbound unix datagram socket that never blocks."""
    try:
        import socket  # here: most programs on `file:` never wait, and it takes long to import
    except ImportError as error:  # the interpreter is on its way out
        raise OSError("no socket can be had any more") from error
    with _mutex:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        _owned[made.fileno()] = made
        return made


def close(fd: int) -> None:
    # Together: a child forked between the two would close a number that is somebody else's by then.
    with _mutex:
        if fd in _owned:
            del _owned[fd]
            os.close(fd)


def close_socket(made: socket.socket) -> None:
    with _mutex:
        _owned.pop(made.fileno(), None)
        made.close()


def tell_after_fork(rememberer: Forgetful) -> None:
    _rememberers.add(rememberer)


def _in_child() -> None:
    global _mutex  # noqa: PLW0603 -- the inherited one is held by a thread that is not here
    _mutex = threading.RLock()
    for fd, made in _owned.items():
        if made is not None:
            made.detach()  # or its finalizer would close whatever has the number then
        with suppress(OSError):
            os.close(fd)
    _owned.clear()
    for rememberer in list(_rememberers):
        rememberer.forget()


def _before() -> None:
    _mutex.acquire()


def _in_parent() -> None:
    _mutex.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
