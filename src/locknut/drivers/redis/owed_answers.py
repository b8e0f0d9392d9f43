"""Connections that owe an answer which nobody waits for any more; then they are as good as new.

A server that has nothing else to do ends a BLPOP up to a tenth of a second late. Whoever waited has
left by then, and without this each such wait would cost a new connection.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from time import monotonic

from hiredis import HiredisError

from locknut.drivers.redis import wire
from locknut.drivers.redis.connections import Connection


class OwedAnswers:
    """The connections of one pool that owe their last answer."""

    def __init__(self) -> None:
        self._connections: deque[tuple[Connection, float]] = deque()

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: Connection) -> None:
        self._connections.append((connection, monotonic() + connection.settings.limit))

    def settled(self) -> Connection | None:
        """One that owes nothing any more, if there is one. Nothing here waits."""
        for _ in range(len(self._connections)):
            try:
                connection, until = self._connections.popleft()
            except IndexError:
                break  # another thread was faster
            try:
                if _paid(connection):
                    connection.owes = None
                    return connection
            except (OSError, HiredisError):
                until = 0.0
            if monotonic() < until:
                self._connections.append((connection, until))
            else:
                connection.close()
        return None

    def close(self) -> None:
        with suppress(IndexError):  # several threads may do so at once
            while self._connections:
                self._connections.popleft()[0].close()


def _paid(connection: Connection) -> bool:
    """Whether the last answer that is owed has come; what comes before it is read as well."""
    while (reply := connection.next_within(0.0)) is not wire.NOTHING:
        if connection.owes is None or connection.owes(reply):
            return True
    return False
