"""How a waiter is woken: an abstract unix datagram socket named after its ticket.

Nobody sleeps in the kernel's lock queue (such a sleep cannot be cancelled, L1). A waiter binds its
bell before it asks again; who leaves the lock looks up the lowest ticket and sends one datagram.
Bells do not cross network namespaces: there, and whenever a ring is lost, `retry_in` is the net.
Beside its bell the first in line also watches the holder's process (a pidfd).
"""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from errno import EADDRINUSE, EAGAIN, ENOBUFS
from typing import Final

from locknut.backends.file import descriptors

_RING: Final = b"!"
_MANY: Final = 100
"""Rings a socket has sent before its own buffer can be what is full."""
_MOST_PIDS: Final = 16


def address(bell_name: str, ticket: int) -> bytes:
    return f"\0locknut-{bell_name}-{ticket:x}".encode()


class Ringer:
    """Rings others' bells, through one socket for the whole process."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._socket: socket.socket | None = None
        self._sent = 0

    def ring(self, to: bytes) -> None:
        with self._mutex:
            try:
                (self._socket or self._open()).sendto(_RING, to)
                self._sent += 1
            except (ConnectionRefusedError, FileNotFoundError):
                pass  # not bound yet (then it asks again once it is), elsewhere, or just gone
            except OSError as error:
                if error.errno not in (EAGAIN, ENOBUFS):
                    raise
                self._send_again(to)

    def close(self) -> None:
        with self._mutex:
            self._close()

    def forget(self) -> None:
        self._mutex = threading.Lock()
        self._socket = None

    def _open(self) -> socket.socket:
        self._socket = descriptors.open_socket()
        self._sent = 0
        return self._socket

    def _send_again(self, to: bytes) -> None:
        """Unread rings are charged to the sender: after many, the full buffer is ours. After few it
        is theirs, and they have rings enough.
        """
        if self._sent >= _MANY:
            self._close()
            with suppress(BlockingIOError, ConnectionRefusedError, FileNotFoundError):
                self._open().sendto(_RING, to)

    def _close(self) -> None:
        # Forgotten first: an interrupt in between must not leave a closed one to ring with.
        used, self._socket = self._socket, None
        if used is not None:
            descriptors.close_socket(used)


class Bell(ABC):
    """What one waiter sleeps on. The colours add how."""

    def __init__(self, ringer: Ringer) -> None:
        self._ringer = ringer
        self._socket = descriptors.open_socket()
        self._hung = b""
        self._address = b""
        self._early = False
        self._pidfds: dict[int, int] = {}
        self._gone: set[int] = set()

    def hang(self, at: bytes) -> None:
        """Be rung at this address from now on."""
        if at == self._hung:
            return
        if self._hung:
            self._renew_socket()
        self._hung = at
        try:
            self._socket.bind(at)
            self._address = at
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            self._socket.bind("")  # two readers in the same nanosecond: the kernel finds a name
            self._address = self._socket.getsockname()
        if self._early:
            self.notify()

    def notify(self) -> None:
        self._early = not self._address
        if self._address:
            self._ringer.ring(self._address)

    @abstractmethod
    def close_later(self) -> bool:
        """The wait is over: close off the way of the new holder; False if the release has to."""

    def follow(self, pids: set[int], *, anew: bool) -> bool:
        """Be woken when one of these processes ends; False if one of them is gone already.

        A process that was seen to end is not followed again until the holders change (`anew`): its
        name may stand in a record that a stopped process has not come to write over.
        """
        if anew:
            self._gone.clear()
        for pid in [pid for pid in self._pidfds if pid not in pids]:
            self._unfollow(pid)
        wanted = sorted(pids - self._gone - self._pidfds.keys())
        gone = [pid for pid in wanted[: _MOST_PIDS - len(self._pidfds)] if not self._open(pid)]
        return not gone

    def close(self) -> None:
        for pid in list(self._pidfds):
            self._unfollow(pid)
        self._stop_listening_to(self._socket.fileno())
        descriptors.close_socket(self._socket)

    def _open(self, pid: int) -> bool:
        try:
            pidfd = descriptors.opened(lambda: os.pidfd_open(pid))
        except ProcessLookupError:
            self._gone.add(pid)
            return False
        except OSError:
            return True  # no pidfds here, or not for us to see: the net remains
        self._pidfds[pid] = pidfd
        self._listen_to(pidfd)
        return True

    def _unfollow(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid)
        self._stop_listening_to(pidfd)
        descriptors.close(pidfd)

    def _ended(self, pidfd: int) -> None:
        for pid in [pid for pid, its in self._pidfds.items() if its == pidfd]:
            self._gone.add(pid)
            self._unfollow(pid)

    def _renew_socket(self) -> None:
        self._early = True  # a ring in the old one may be lost: ring once for it
        self._stop_listening_to(self._socket.fileno())
        descriptors.close_socket(self._socket)
        self._socket = descriptors.open_socket()
        self._listen_to(self._socket.fileno())

    def _take_ring(self) -> None:
        """One datagram for one wake: a ring that comes meanwhile must wake again."""
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return

    @abstractmethod
    async def wait(self, until: float) -> bool:
        """Sleep until it rings, or a process that is followed ends; False once `until` is past."""

    @abstractmethod
    def _listen_to(self, fd: int) -> None: ...

    @abstractmethod
    def _stop_listening_to(self, fd: int) -> None: ...


def close_all(bells: list[Bell]) -> None:
    """Several threads may do so at once: each bell is closed by one of them."""
    with suppress(IndexError):
        while bells:
            bells.pop().close()
