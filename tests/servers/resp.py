"""The protocol of Redis over a bare socket: what the tests need of it, without any driver."""

from __future__ import annotations

import contextlib
import socket
from typing import BinaryIO, Self, cast

Answer = bytes | int | list["Answer"] | None
Word = str | bytes | int | float


class Refused(Exception):
    """The server answered with an error."""


class Wire:
    """One connection; commands are asked one after the other."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._reader = cast("BinaryIO", connected.makefile("rb"))

    def ask(self, *words: Word) -> Answer:
        self.send(*words)
        return self.read()

    def send(self, *words: Word) -> None:
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        bulk = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(b"*%d\r\n%b" % (len(parts), bulk))

    def send_packed(self, command: bytes) -> None:
        """One that is packed already."""
        self._socket.sendall(command)

    def read(self) -> Answer:
        line = self._reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server hung up")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest
            case b"-":
                raise Refused(rest.decode())
            case b":":
                return int(rest)
            case b"$":
                return self._bulk(int(rest))
            case b"*":
                return [self.read() for _ in range(int(rest))] if rest != b"-1" else None
        raise ValueError(f"not RESP2: {line!r}")

    def _bulk(self, size: int) -> bytes | None:
        if size < 0:
            return None
        data = self._reader.read(size + 2)
        if len(data) < size + 2:
            raise ConnectionResetError("the server hung up")
        return data[:-2]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # who reads, in another thread, lets go of it
        with contextlib.suppress(OSError):
            self._reader.close()  # also where the server was killed, or the socket stays open
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
