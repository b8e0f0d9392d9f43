"""One direction of one proxied connection: what becomes of each piece that arrives.

Faults are those that TCP knows. Bytes come late, in pieces, or not at all, but never with a gap:
a connection that lost bytes is silent from there on, and is cut when the fault ends.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

LOG = 256 * 1024
"""How many of its newest bytes a flow can be searched for."""
END = b""
"""Stands behind the last bytes of a sender that hung up."""
CUT = None
"""Stands where the connection is to be cut."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a flow does with what arrives; by default it passes everything on."""

    delay: float = 0.0
    held: bool = False
    swallowed: bool = False
    piece: int = 0
    pause: float = 0.0
    cut_at: bytes | None = None
    cut_after: int | None = None


class Switch(ABC):
    """The faults of one flow, or of all flows in a direction. Each call replaces the last."""

    @abstractmethod
    def apply(self, rule: Rule) -> None:
        """Put the rule in force before this returns."""

    def forward(self) -> None:
        """Pass everything on, beginning with what was held. Connections that lost bytes are cut."""
        self.apply(Rule())

    release = forward

    def delay(self, seconds: float) -> None:
        """Pass everything on after this many seconds, in order."""
        self.apply(Rule(delay=seconds))

    def hold(self) -> None:
        """Keep everything until `release`, even if the sender hangs up meanwhile."""
        self.apply(Rule(held=True))

    def swallow(self) -> None:
        """Lose everything, including the news that the sender hung up."""
        self.apply(Rule(swallowed=True))

    def split(self, size: int = 1, pause: float = 0.001) -> None:
        """Pass on `size` bytes at a time, with pauses, as a slow network does."""
        self.apply(Rule(piece=size, pause=pause))

    def cut_at(self, pattern: bytes) -> None:
        """Cut the connection when this pattern arrives, and do not pass it on."""
        self.apply(Rule(cut_at=pattern))

    def cut_after(self, size: int) -> None:
        """Pass on `size` more bytes, then cut the connection, perhaps in the middle of a reply."""
        self.apply(Rule(cut_after=size))


class _Item(NamedTuple):
    due: float
    data: bytes | None


class Flow:
    """From one end of a connection to the other; lives in the loop of the proxy."""

    def __init__(self, rule: Rule, cut: Callable[[], None]) -> None:
        self.seen = bytearray()
        self.ended = asyncio.Event()
        """Nothing more will be handed on."""
        self._rule = rule
        self._cut = cut
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.StreamWriter | None = None
        self._queue: deque[_Item] = deque()
        self._passed = 0
        self._lost = False
        self._timer: asyncio.TimerHandle | None = None

    def lead_to(self, writer: asyncio.StreamWriter) -> None:
        """What has arrived before is handed on now."""
        self._writer = writer
        self._hand_on()

    def obey(self, rule: Rule) -> None:
        if self._lost and not rule.swallowed:
            self._cut()  # its stream has a gap: no TCP connection can go on from here
            return
        if rule.swallowed and self._queue:
            self._lose()
        now = self._loop.time()
        self._queue = deque(_Item(now + rule.delay, item.data) for item in self._queue)
        self._rule = rule
        self._passed = 0
        self._hand_on()

    def arrived(self, data: bytes) -> None:
        """Something from the sender, or nothing: its end."""
        self.seen += data
        del self.seen[:-LOG]
        rule = self._rule
        if rule.swallowed:
            self._lose()
        elif rule.cut_at is not None and self._just_seen(rule.cut_at, len(data)):
            self._cut()
        elif rule.cut_after is not None and self._passed + len(data) >= rule.cut_after:
            self._put_in_pieces(data[: rule.cut_after - self._passed])
            self._put(CUT)
        elif data:
            self._passed += len(data)
            self._put_in_pieces(data)
        else:
            self._put(END)
        self._hand_on()

    def end(self) -> None:
        """The connection is gone."""
        self._queue.clear()
        self.ended.set()

    def _just_seen(self, pattern: bytes, size: int) -> bool:
        """Also where the pattern began in what came before."""
        start = max(0, len(self.seen) - size - len(pattern) + 1)
        return self.seen.find(pattern, start) >= 0

    def _lose(self) -> None:
        self._lost = True
        self._queue.clear()

    def _put_in_pieces(self, data: bytes) -> None:
        size = self._rule.piece or max(1, len(data))
        for start in range(0, len(data), size):
            self._put(data[start : start + size], self._rule.pause)

    def _put(self, data: bytes | None, pause: float = 0.0) -> None:
        due = self._loop.time() + self._rule.delay
        if self._queue:
            due = max(due, self._queue[-1].due + pause)  # never before what came earlier
        self._queue.append(_Item(due, data))

    def _hand_on(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._writer is None or self._rule.held:
            return
        while self._queue:
            due, data = self._queue[0]
            if due > self._loop.time():
                self._timer = self._loop.call_at(due, self._hand_on)
                return
            self._queue.popleft()
            self._send(self._writer, data)

    def _send(self, writer: asyncio.StreamWriter, data: bytes | None) -> None:
        if data is CUT:
            self._cut()
        elif writer.is_closing():
            self.ended.set()  # nobody is there any more to hear it
        elif data:
            writer.write(data)
        else:
            with suppress(OSError):  # it was reset meanwhile
                writer.write_eof()
            self.ended.set()
