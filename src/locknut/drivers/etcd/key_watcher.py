"""The watches of a link, and the thread that reads their stream, for as long as there are any."""

from __future__ import annotations

import math
import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from locknut.drivers.etcd import grpc_errors
from locknut.drivers.etcd import rpc_messages as messages
from locknut.drivers.etcd.blocking_connection import Connection
from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.requests import Event
from locknut.drivers.etcd.settings import Settings
from locknut.drivers.etcd.watch_stream import LoggedOut, Watched, WatchStream
from locknut.errors import LocknutError
from locknut.runtimes import cpython, sockets
from locknut.runtimes.clock import now
from locknut.runtimes.threads import Guard

PAUSE: Final = 0.2
"""Seconds between two tries to reach a member."""
YOUNG: Final = 2.0
"""Seconds for which a stream's login is taken to be good, unless there is another one."""
LINGER: Final = 5.0
"""Seconds for which the stream is kept though nobody watches."""


class Watcher:
    """All watches of one link."""

    def __init__(self, settings: Settings, members: Members):
        self._settings = settings
        self._members = members
        self._begin()
        members.follow(self._wake)

    def _begin(self) -> None:
        self.guard = Guard()
        self._watches: dict[int, Watched] = {}
        self._last = 0
        self._changed: deque[int] = deque()
        """Watches that began or ended since the thread looked."""
        self._bell: socket.socket | None = None
        """Wakes the thread; there is one as long as the thread runs."""
        self._stopped = False

    def watch(
        self, key: bytes, end: bytes, from_revision: int, on_event: Callable[[Event], None]
    ) -> Watched:
        with self.guard:
            self._last += 1
            watch = Watched(self._last, key, end, from_revision, on_event, self._forget)
            self._watches[watch.number] = watch
            self._changed.append(watch.number)
            starts = self._bell is None and not self._stopped
            if starts:
                try:
                    self._start()
                except BaseException:  # an interrupt: without a bell the thread ends, if it began
                    self._bell = None
                    raise
        if not starts:
            self._wake()
        return watch

    def _forget(self, number: int) -> None:
        """The member is told so at the next opportunity."""
        with self.guard:
            if self._watches.pop(number, None) is not None:
                self._changed.append(number)

    def stop(self) -> None:
        """The thread ends soon; nobody waits for it."""
        with self.guard:
            self._stopped = True
            self._watches.clear()
        self._wake()

    def forked(self) -> None:
        """The thread and its stream are the parent's."""
        self._begin()

    def _wake(self) -> None:
        bell = self._bell
        if bell is not None:
            with suppress(OSError):  # it is awake anyway, or over
                bell.send(b"x")

    def _start(self) -> None:
        bell, woken = sockets.open_pair()
        bell.setblocking(False)
        self._bell = bell
        # Not waited for: an interrupt (Ctrl-C) in that wait may come out as a RuntimeError.
        thread = cpython.UnawaitedThread(
            target=self._run, args=(bell, woken), name="locknut-etcd-watches", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no thread is to be had while the interpreter exits
            self._bell = None

    # On the thread.

    def _run(self, bell: socket.socket, woken: socket.socket) -> None:
        try:
            while not self._over(bell, -math.inf):  # only an open stream is kept for nobody
                turn = self._members.turn
                try:
                    self._serve(bell, woken)
                except LoggedOut:
                    continue
                except (OSError, ValueError, LocknutError):
                    self._members.leave(turn)
                    _spoke(None, woken, PAUSE)
        finally:
            with self.guard:
                if self._bell is bell:  # an error of another's: the next watch begins anew
                    self._bell = None
            bell.close()
            woken.close()

    def _over(self, bell: socket.socket, idle_since: float) -> bool:
        """Whether nobody needs the thread any more; from then on another one may begin."""
        with self.guard:
            if self._bell is not bell:
                return True
            if self._watches or (not self._stopped and now() - idle_since < LINGER):
                return False
            self._bell = None
            return True

    def _serve(self, bell: socket.socket, woken: socket.socket) -> None:
        """Until the thread is over, or another member is to be asked."""
        settings, members = self._settings, self._members
        connection = Connection(settings, members.turn, settings.connect_limit)
        try:
            ticket, since = self._ticket(connection), now()
            head = members.head(messages.WATCH, connection.turn.host, ticket)

            def outdated() -> bool:
                if now() - since > YOUNG:
                    members.logged_out(ticket)
                return members.ticket != ticket

            self._changed.clear()
            stream = WatchStream(connection, self._watches, outdated)
            if stream.begin(head):
                self._listen(stream, connection, bell, woken)
        finally:
            connection.close()

    def _ticket(self, connection: Connection) -> bytes:
        members, settings = self._members, self._settings
        if members.ticket is None:
            asked = messages.login(settings.username, settings.password)
            head = members.head(messages.AUTHENTICATE, connection.turn.host, b"")
            answer, _ = connection.call(head, asked, settings.limit)
            members.ticket = grpc_errors.ticket(settings, answer)
        return members.ticket

    def _listen(
        self,
        stream: WatchStream,
        connection: Connection,
        bell: socket.socket,
        woken: socket.socket,
    ) -> None:
        needed = now()
        while not self._over(bell, needed):
            if self._watches:
                needed = now()
            if connection.turn != self._members.turn:
                return
            while self._changed:
                stream.follow(self._changed.popleft())
            patience = min(stream.check(), LINGER)
            connection.send(self._settings.limit)
            if _spoke(connection, woken, patience):
                stream.heard()
                connection.hear()


def _spoke(connection: Connection | None, woken: socket.socket, patience: float) -> bool:
    """Whether something has come from the member, after so long at most; a ring ends the wait."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    if connection is not None:
        poll.register(connection, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(patience * 1000 + 1)}
    if woken.fileno() in ready:
        woken.recv(4096)
    return connection is not None and connection.fileno() in ready
