"""The blocking link to a cluster: a connection for each thread that asks, kept while idle."""

from __future__ import annotations

import threading
from typing import Final

from locknut.drivers.etcd.blocking_connection import Connection
from locknut.drivers.etcd.calls import Answer
from locknut.drivers.etcd.link import BaseLink, NotSent
from locknut.drivers.etcd.members import Members, Turn
from locknut.drivers.etcd.settings import Settings
from locknut.runtimes.deadlines import share, time_left

MOST_IDLE: Final = 64


class BlockingLink(BaseLink[Connection]):
    """For threads."""

    def __init__(self, settings: Settings, members: Members):
        super().__init__(settings, members)
        self._idle: list[Connection] = []
        self._kept = MOST_IDLE
        self._logging_in = threading.RLock()  # a signal handler may log in, too

    async def connected(self) -> Connection:
        """An idle one to the member that is asked now, or a new one to it, or to the next."""
        failed: Exception | None = None
        for _ in self.members.hosts:
            turn = self.members.turn
            if (idle := self._idle_at(turn)) is not None:
                return idle
            limit = self._limit(self.settings.connect_limit)
            try:
                return Connection(self.settings, turn, limit)
            except (OSError, ValueError) as error:
                failed = error
                self.members.leave(turn)
        raise failed or OSError("no member is known")

    def _idle_at(self, turn: Turn) -> Connection | None:
        while True:
            try:
                found = self._idle.pop()
            except IndexError:
                return None
            if found.turn == turn and found.usable():
                return found
            found.close()

    def _limit(self, limit: float) -> float:
        """Where there are others to ask, one that is silent leaves some time to them."""
        return time_left(limit) if len(self.members.hosts) == 1 else share(limit)

    async def call(
        self, connection: Connection, head: bytes, message: bytes
    ) -> tuple[Answer, float]:
        try:
            limit = self._limit(self.settings.limit)
        except TimeoutError as error:
            raise NotSent(*error.args) from error
        return connection.call(head, message, limit)

    async def log_in(self, connection: Connection) -> None:
        """One thread at a time: checking a password is hard work for the cluster."""
        if not self._logging_in.acquire(timeout=time_left(self.settings.limit)):
            raise TimeoutError
        try:
            if self.members.ticket is None:
                await self.log_in_by(connection)
        finally:
            self._logging_in.release()

    def give_back(self, connection: Connection) -> None:
        if len(self._idle) < self._kept:
            self._idle.append(connection)
        else:
            connection.close()

    def drop(self, connection: Connection, error: BaseException) -> None:  # noqa: ARG002 -- it tells nobody else
        connection.close()

    async def close(self) -> None:
        self._kept = 0
        self.dropped()

    def dropped(self) -> None:
        self.watcher.stop()
        self._close_idle()

    def forked(self) -> None:
        super().forked()
        self._logging_in = threading.RLock()  # the parent's may be held by a thread not here
        self._close_idle()

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
