"""The server's end of one connection: commands in order, answers in order, and sleep in BLPOP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hiredis import Reader

from tests.simulation.redis.resp_encoding import encoded

if TYPE_CHECKING:
    from tests.simulation.redis.node import RedisNode
    from tests.simulation.redis.wires import Wire


class Port:
    """The server's end of one connection."""

    def __init__(self, server: RedisNode) -> None:
        self.server = server
        self.wire: Wire | None = None
        self.channels: set[bytes] = set()
        self.stays = False
        """Whether it goes on with an old master when another succeeds it."""
        self.sleeps_on: bytes | None = None
        """The list that its BLPOP waits for; what is sent meanwhile is done afterwards."""
        self._wake_up: Callable[[], None] = _nobody
        self._reader = Reader()
        self._closed = False

    def arrived(self, data: bytes) -> None:
        self.server.when_awake(lambda: self._feed(data))

    def hung_up(self) -> None:
        self.server.when_awake(self.close)

    def close(self) -> None:
        self._closed = True
        self._wake_up()
        self.sleeps_on = None
        self.server.ports.pop(self, None)

    def tell(self, data: bytes) -> None:
        if self.wire is not None and not self._closed:
            self.wire.answer(data)

    def sleep(self, name: bytes, seconds: float) -> None:
        self.sleeps_on = name
        self._wake_up = self.server.world.after(
            seconds, lambda: self.server.when_awake(lambda: self.woken(None))
        )

    def woken(self, answer: list[bytes] | None) -> None:
        if self.sleeps_on is None:
            return
        self._wake_up()
        self.sleeps_on = None
        self.tell(b"*-1\r\n" if answer is None else encoded(answer))
        self._feed(b"")

    def _feed(self, data: bytes) -> None:
        if self._closed:
            return
        self._reader.feed(data)
        while self.sleeps_on is None and (words := self._reader.gets()) is not False:
            self.server.do(self, words)


def _nobody() -> None:
    """Nobody has to be woken."""
