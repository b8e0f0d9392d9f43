"""The one call that all watches of a link are part of, on one connection, for as long as it holds.

Each watch knows from which revision on it has to be told. So whatever becomes of a stream, the next
one goes on from there: nothing is missed, and nothing is told twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from locknut.drivers.etcd import rpc_messages as messages
from locknut.drivers.etcd.blocking_connection import Connection
from locknut.drivers.etcd.calls import Stream
from locknut.drivers.etcd.requests import Event, What
from locknut.runtimes.clock import now

PING_AFTER: Final = 10.0
"""Seconds of silence after which we ask whether the member is there; etcd refuses to be asked more
often than every five."""
PONG_WITHIN: Final = 5.0


class Watched:
    """One key or range, and how far it was told."""

    __slots__ = ("_forget", "end", "key", "next", "number", "on_event")

    def __init__(
        self,
        number: int,
        key: bytes,
        end: bytes,
        from_revision: int,
        on_event: Callable[[Event], None],
        forget: Callable[[int], None],
    ):
        self.number = number
        self.key = key
        self.end = end
        self.next = from_revision
        self.on_event = on_event
        self._forget = forget

    def close(self) -> None:
        self._forget(self.number)

    def tell(self, events: Iterable[Event]) -> None:
        """Those that it was not told yet: all that a revision did comes in one message."""
        told = self.next
        for event in events:
            if event.revision >= told:
                self.on_event(event)
                self.next = event.revision + 1


class LoggedOut(Exception):
    """A watch was refused; a new login may help."""


class WatchStream(Stream):
    """A stream that is open. `watches` are those that are wanted, by their numbers."""

    def __init__(
        self, connection: Connection, watches: dict[int, Watched], outdated: Callable[[], bool]
    ):
        super().__init__()
        self._connection = connection
        self._watches = watches
        self._outdated = outdated
        """Says whether a new login may help where a watch was refused."""
        self._asked: set[int] = set()
        self._creating: deque[int] = deque()
        """Those that were asked for, until the member says so, in this order."""
        self._heard = now()
        self._pinged: float | None = None

    def begin(self, head: bytes) -> bool:
        """Ask for all of them; False if there are none."""
        wanted = list(self._watches.values())
        if wanted:
            self._connection.http2.open(self, head, self._creation(wanted[0]), last=False)
            for watch in wanted[1:]:
                self._connection.http2.add(self, self._creation(watch))
        return bool(wanted)

    def _creation(self, watch: Watched) -> bytes:
        self._asked.add(watch.number)
        self._creating.append(watch.number)
        return messages.create_watch(watch.number, watch.key, watch.end, watch.next)

    def follow(self, number: int) -> None:
        """A watch began, or ended."""
        watch = self._watches.get(number)
        if watch is None and number in self._asked:
            self._asked.discard(number)
            self._connection.http2.add(self, messages.cancel_watch(number))
        elif watch is not None and number not in self._asked:
            self._connection.http2.add(self, self._creation(watch))

    def message(self, message: bytes) -> None:
        told = messages.told(message)
        number = told.watch
        if told.created and self._creating:
            number = self._creating.popleft()  # of a refused one it may not say which it was
        watch = self._watches.get(number)
        if told.canceled and watch is not None:
            if told.created and self._outdated():
                raise LoggedOut
            watch.close()
            watch.on_event(Event(What.ASK_AGAIN))
        elif watch is not None:
            watch.tell(told.events)

    def heard(self) -> None:
        """Something has come from the member."""
        self._heard, self._pinged = now(), None

    def check(self) -> float:
        """Seconds until the next look. OSError, if the stream is over, or the member silent."""
        if self.status is not None or self._connection.http2.leaving:
            raise ConnectionResetError(self.text or "the member is leaving")
        at = now()
        if self._pinged is not None:
            if at - self._pinged >= PONG_WITHIN:
                raise TimeoutError
            return PONG_WITHIN - (at - self._pinged)
        if at - self._heard >= PING_AFTER:
            self._pinged = at
            self._connection.http2.ping()
            return PONG_WITHIN
        return PING_AFTER - (at - self._heard)
