"""A call by gRPC: a stream of HTTP/2 whose data are messages, each with its length before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import Final

_MESSAGE: Final = Struct(">BI")


def framed(message: bytes) -> bytes:
    return _MESSAGE.pack(0, len(message)) + message


class Stream(ABC):
    """One call: its request goes out at once, its answer comes as one message or more."""

    status: int | None = None
    """That of gRPC, once it is over."""
    text = ""
    """What the server says to it."""

    def __init__(self) -> None:
        self.id = 0
        """0 while it waits to be opened."""
        self.unsent = b""
        """What waits for the server to make room."""
        self.last = True
        self.window = 0
        self.received = 0
        self._parts: list[bytes] = []
        """Of a message that is not complete: put together once, when all of it is there."""
        self._size = 0
        self._wanted = 0

    def take(self, data: bytes) -> None:
        """A part of the answer."""
        if self._parts:
            self._parts.append(data)
            self._size += len(data)
            if self._size < self._wanted:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        at, end, self._wanted = 0, len(data), 5
        while end - at >= 5:
            compressed, size = _MESSAGE.unpack_from(data, at)
            if compressed:
                raise ValueError("a compressed message, which nobody asked for")
            if end - at - 5 < size:
                self._wanted = 5 + size
                break
            self.message(data[at + 5 : at + 5 + size])
            at += 5 + size
        if at < end:
            self._parts.append(data[at:])
            self._size = end - at

    @abstractmethod
    def message(self, message: bytes) -> None:
        """One message is complete."""

    def end(self, status: int, text: str) -> None:
        """It is over."""
        self.status, self.text = status, text


class Answer(Stream):
    """The one message of an answer."""

    body: bytes | None = None

    def message(self, message: bytes) -> None:
        self.body = message
