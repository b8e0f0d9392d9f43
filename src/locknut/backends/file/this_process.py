"""This process: how its records identify it, and which descriptors are its own.

*Identity*: host, pid, pid namespace and boot, as other processes may read them.

*Descriptors* (S17): a forked child shares the kernel locks of its parent. Unlocking in the child
would free the parent's lock, and keeping the descriptor would hold the lock after the parent was
killed. So every descriptor is opened, registered and closed under one mutex. The fork takes that
mutex, and the child closes every registered descriptor without unlocking. (A child that foreign C
code forked does not pass here: it keeps the lock until it exits or calls exec.)
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar
from weakref import WeakSet

from locknut.backends.file.file_layout import Record, digest, words
from locknut.core.values import Claim
from locknut.runtimes import this_boot
from locknut.runtimes.cpython import members
from locknut.runtimes.descriptors import away_from_standard

if TYPE_CHECKING:
    import socket

T = TypeVar("T")
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)
"""A process may have only so many descriptors (`ulimit -n`), and so may the machine."""
UNKNOWN_BOOT: Final = bytes(8)
"""Where `/proc` is missing: nothing can be detached, and what others detached is believed until it
runs out by the clock."""


class ProcessIdentity(NamedTuple):
    """What the records of this process say of it."""

    host: str
    pid: int
    pid_space: int
    boot: bytes


def own_identity() -> ProcessIdentity:
    return ProcessIdentity(os.uname().nodename, os.getpid(), _pid_space(), _boot())


def same_boot(record: Record, me: ProcessIdentity) -> bool:
    """Whether the record's times count by a clock that we can read."""
    return me.boot in (record.boot, UNKNOWN_BOOT)


def record_of(
    claim: Claim, mode: int, owner: bytes, raw: int, now: int, me: ProcessIdentity
) -> Record:
    """What is written down of a grant to this claim; `now` in nanoseconds since the epoch."""
    return Record(
        mode=mode,
        pid=me.pid,
        pid_space=me.pid_space,
        permits=claim.permits,
        raw=raw,
        since=now // 1000,
        boot=me.boot,
        owner_digest=owner,
        words=words(me.host, claim.who, claim.label, claim.owner or ""),
    )


def boot_clock() -> int:
    """Nanoseconds since this boot, suspended time included: what a detached hold is counted by."""
    now = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    return now - this_boot.shift("boottime")


def monotonic_clock() -> int:
    """Nanoseconds of the monotonic clock: the moment one came, which is one's place in the line."""
    return time.monotonic_ns() - this_boot.shift("monotonic")


def _pid_space() -> int:
    with suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFFFF
    return 0


def _boot() -> bytes:
    known = this_boot.boot_id()
    return digest(known)[:8] if known else UNKNOWN_BOOT


class Rememberer(Protocol):
    """Something that remembers descriptors."""

    def forget(self) -> None:
        """In a forked child: they are closed already."""

    def spare(self) -> bool:
        """Close those that are open only to be at hand; return whether there were any."""


# Re-entrant: the collector may drop an engine, and close its descriptors, amid an open.
_mutex = threading.RLock()
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_owned: dict[int, socket.socket | None] = {}
_rememberers: WeakSet[Rememberer] = WeakSet()


def open_owned(open_one: Callable[[], int]) -> int:
    """Open a descriptor and own it, with no fork in between."""

    def own() -> int:
        with _mutex:
            fd = away_from_standard(open_one())
            _owned[fd] = None
            return fd

    return _making_room(own)


def _making_room(open_one: Callable[[], T]) -> T:
    """Where there can be no more, what we keep open only to be quick must not be the reason."""
    try:
        return open_one()
    except OSError as error:
        if error.errno not in _NONE_LEFT or not any(each.spare() for each in members(_rememberers)):
            raise
    return open_one()


def open_file(path: str, flags: int, mode: int = 0o600, dir_fd: int | None = None) -> int:
    return open_owned(lambda: os.open(path, flags | _CLOEXEC, mode, dir_fd=dir_fd))


def open_socket() -> socket.socket:
    """An unbound unix datagram socket that never blocks."""
    try:
        import socket  # here: most programs on `file:` never wait, and it takes long to import
    except ImportError as error:  # the interpreter is on its way out
        raise OSError("no socket can be had any more") from error

    def own() -> socket.socket:
        with _mutex:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            _owned[made.fileno()] = made
            return made

    return _making_room(own)


def close_fd(fd: int) -> None:
    # Together: a child forked between the two would close a number that is somebody else's by then.
    with _mutex:
        if fd in _owned:
            del _owned[fd]
            os.close(fd)


def close_socket(made: socket.socket) -> None:
    with _mutex:
        _owned.pop(made.fileno(), None)
        made.close()


def remember(rememberer: Rememberer) -> None:
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
    for rememberer in members(_rememberers):
        rememberer.forget()


def _before() -> None:
    _mutex.acquire()


def _in_parent() -> None:
    _mutex.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
