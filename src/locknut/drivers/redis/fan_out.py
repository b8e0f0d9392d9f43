"""Several servers asked at the same time by one thread: the nodes of a cluster, for one."""

from __future__ import annotations

import select
from collections.abc import Sequence
from time import monotonic
from typing import Any

from hiredis import HiredisError

from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.pools import Pool
from locknut.errors import BackendError
from locknut.runtimes.deadlines import time_left


def ask_all(
    work: Sequence[tuple[Pool, Sequence[bytes]]],
) -> list[list[Any] | BackendError]:
    """Several servers asked at the same time, by one thread: their answers, or why there are none.

    One that does not answer costs its time limit once, and nobody else's answer.
    """
    if len(work) == 1:
        pool, packed = work[0]
        try:
            return [pool.send_many(packed)]
        except BackendError as error:
            return [error]
    return _FanOut(work).answers()


def _time_left(limit: float) -> float:
    try:
        return time_left(limit)
    except TimeoutError:
        return 0.0


class _FanOut:
    """Commands under way to several servers."""

    def __init__(self, work: Sequence[tuple[Pool, Sequence[bytes]]]):
        self._work = work
        self._out: dict[int, tuple[int, Connection]] = {}
        """By descriptor: the place in `work`, and the connection that owes the answers."""
        self._answers: list[Any] = [None] * len(work)

    def answers(self) -> list[list[Any] | BackendError]:
        try:
            # A node without a connection may be gone: the others do not wait for it.
            for at in sorted(range(len(self._work)), key=lambda at: not self._work[at][0].idle):
                self._post(at)
            self._collect()
            for at, connection in list(self._out.values()):
                self._fail(at, connection, TimeoutError())
        finally:
            for _, connection in self._out.values():  # interrupted: their answers are nobody's
                connection.close()
        return self._answers

    def _post(self, at: int) -> None:
        pool, packed = self._work[at]
        try:
            connection = pool.take()
        except BackendError as error:
            self._answers[at] = error
            return
        self._out[connection.fileno()] = at, connection
        try:
            connection.post(packed)
        except OSError as error:
            self._fail(at, connection, error)

    def _collect(self) -> None:
        poll = select.poll()
        for descriptor in self._out:
            poll.register(descriptor, select.POLLIN)
        limit = max(pool.settings.limit for pool, _ in self._work)
        until = monotonic() + _time_left(limit)
        while self._out and (ready := poll.poll(max(0.0, until - monotonic()) * 1000)):
            for descriptor, _ in ready:
                poll.unregister(descriptor)
                at, connection = self._out[descriptor]
                pool, packed = self._work[at]
                try:
                    self._answers[at] = connection.collect(len(packed))
                except (OSError, HiredisError) as error:
                    self._fail(at, connection, error)
                else:
                    del self._out[descriptor]
                    pool.give_back(connection)

    def _fail(self, at: int, connection: Connection, error: Exception) -> None:
        del self._out[connection.fileno()]
        try:
            self._work[at][0].drop(connection, error)
        except BackendError as unavailable:
            self._answers[at] = unavailable
