"""How a waiter is woken: an abstract unix datagram socket named after its ticket.

Nobody sleeps in the kernel's lock queue, because such a sleep cannot be cancelled (L1). A waiter
binds its bell before it asks again. A holder that leaves looks up the lowest ticket and sends one
datagram to its bell. Bells do not cross network namespaces, a ring may be lost, and there may
be no socket to be had: then the waiter asks by itself after `retry_in`. The first in line also
watches the holder's process (a pidfd). A waiter without a ticket or a socket sleeps on a plain
signal.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from errno import EADDRINUSE, EAGAIN, ENOBUFS
from typing import TYPE_CHECKING, Final

from locknut.backends.file import this_process
from locknut.core.ports import Signal

if TYPE_CHECKING:
    import socket

_RING: Final = b"!"
_MANY: Final = 100
"""After this many rings the full buffer may be that of our own socket."""
_MOST_PIDS: Final = 16


def address(bell_name: str, ticket: int) -> bytes:
    return f"\0locknut-{bell_name}-{ticket:x}".encode()


class Ringer:
    """Rings others' bells, through one socket for the whole process.

    A ring is a favour: the lock is free already, so nothing that goes wrong here is an error.
    """

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._socket: socket.socket | None = None
        self._sent = 0

    def ring(self, to: bytes) -> None:
        with self._mutex, suppress(OSError):  # not bound yet, elsewhere, just gone, or no socket
            try:
                (self._socket or self._open()).sendto(_RING, to)
                self._sent += 1
            except OSError as error:
                if error.errno in (EAGAIN, ENOBUFS):
                    self._send_again(to)

    def close(self) -> None:
        with self._mutex:
            self._close()

    def forget(self) -> None:
        self._mutex = threading.RLock()
        self._socket = None

    def _open(self) -> socket.socket:
        self._socket = this_process.open_socket()
        self._sent = 0
        return self._socket

    def _send_again(self, to: bytes) -> None:
        """Unread rings are charged to the sender: after many, the full buffer is ours. After few it
        is theirs, and they have rings enough.
        """
        if self._sent >= _MANY:
            self._close()
            self._open().sendto(_RING, to)

    def _close(self) -> None:
        # Forgotten first: an interrupt in between must not leave a closed one to ring with.
        used, self._socket = self._socket, None
        if used is not None:
            this_process.close_socket(used)


class Bell(ABC):
    """What one waiter sleeps on. The colours add how."""

    def __init__(
        self, ringer: Ringer, signal: Callable[[], Signal], now: Callable[[], float]
    ) -> None:
        self._ringer = ringer
        self._now = now
        self._plain = signal()
        self._socket: socket.socket | None = None
        self._hung = b""
        self._address = b""
        self._early = False
        self._pidfds: dict[int, int] = {}
        self._gone: set[int] = set()

    def hang(self, at: bytes) -> None:
        """Be rung at this address from now on; if no socket can be had, only by `notify`."""
        if at == self._hung:
            return
        self._take_down()
        with suppress(OSError):
            self._socket = made = this_process.open_socket()
            self._listen_to(made.fileno())
            self._address = _bound(made, at)
        if not self._address:
            self._take_down()
        elif self._early:
            self.notify()
        self._hung = at

    def notify(self) -> None:
        """By this process: whatever it is that its owner sleeps on."""
        self._early = not self._address
        if self._address:
            self._ringer.ring(self._address)
        else:
            self._plain.notify()

    async def wait(self, until: float) -> bool:
        """Sleep until it rings, or a process that is followed ends; False once `until` is past."""
        if self._socket is None:
            rung = await self._plain.wait(until)
            self._early = False
            return rung
        return await self._wait_for_rings(until)

    @abstractmethod
    def close_later(self) -> bool:
        """The wait is over: close off the way of the new holder; False if the release has to."""

    def follow(self, pids: set[int], *, anew: bool) -> bool:
        """Be woken when one of these processes ends; False if one of them is gone already.

        A process that was seen to end is not followed again until the holders change (`anew`): its
        name may stand in a record that a stopped process has not come to write over.
        """
        if self._socket is None:
            return True  # it sleeps on nothing that has a descriptor
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
        self._take_down()

    def _open(self, pid: int) -> bool:
        try:
            pidfd = this_process.open_owned(lambda: os.pidfd_open(pid))
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
        this_process.close_fd(pidfd)

    def _ended(self, pidfd: int) -> None:
        for pid in [pid for pid, its in self._pidfds.items() if its == pidfd]:
            self._gone.add(pid)
            self._unfollow(pid)

    def _take_down(self) -> None:
        used = self._socket
        if used is not None:
            self._early = True  # a ring in the old one may be lost: ring once for it
            self._stop_listening_to(used.fileno())
            this_process.close_socket(used)
        self._socket = None
        self._address = b""

    def _take_ring(self) -> None:
        """One datagram for one wake: a ring that comes meanwhile must wake again."""
        if self._socket is not None:
            with suppress(BlockingIOError):
                self._socket.recv(1)

    def _rings(self, fd: int) -> bool:
        return self._socket is not None and fd == self._socket.fileno()

    @abstractmethod
    async def _wait_for_rings(self, until: float) -> bool: ...

    @abstractmethod
    def _listen_to(self, fd: int) -> None: ...

    @abstractmethod
    def _stop_listening_to(self, fd: int) -> None: ...


def _bound(made: socket.socket, at: bytes) -> bytes:
    try:
        made.bind(at)
    except OSError as error:
        if error.errno != EADDRINUSE:
            raise
        made.bind("")  # two readers in the same nanosecond: the kernel finds a name
        return bytes(made.getsockname())
    return at


def close_all(bells: list[Bell]) -> None:
    """Several threads may do so at once: each bell is closed by one of them."""
    with suppress(IndexError):
        while bells:
            bells.pop().close()
