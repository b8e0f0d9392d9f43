"""The limit on ZooKeeper: a bare socket with requests that were packed beforehand.

It is no library: no pings (its session lives for a minute), no reconnecting, no time limit, and it
looks at no list: it is the least that a lock has to send when nobody waits.
"""

from __future__ import annotations

import socket
import struct
from typing import Any
from urllib.parse import urlsplit

from kazoo.protocol.serialization import Connect, Create2, Delete, GetChildren
from kazoo.security import OPEN_ACL_UNSAFE

from benchmarks.kinds import Opened, Pair

SESSION_MS = 60_000
EPHEMERAL_SEQUENCE = 3
_HEADER = struct.Struct("!iqi")


class Wire:
    """One connection, which knows where a message ends."""

    def __init__(self, url: str) -> None:
        host, _, port = urlsplit(url).netloc.split(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self.send(bytes(Connect(0, 0, SESSION_MS, 0, b"\0" * 16, False).serialize()))
        self.read()

    def send(self, *messages: bytes) -> None:
        self._socket.sendall(b"".join(struct.pack("!i", len(each)) + each for each in messages))

    def read(self) -> bytes:
        while len(self._buffer) < 4 or len(self._buffer) < 4 + self._size():
            self._buffer += self._socket.recv(65536)
        end = 4 + self._size()
        message, self._buffer = self._buffer[4:end], self._buffer[end:]
        return message

    def ask(self, *messages: bytes) -> list[bytes]:
        self.send(*messages)
        return [self.read() for _ in messages]

    def _size(self) -> int:
        size: int = struct.unpack_from("!i", self._buffer)[0]
        return size


def packed(request: Any) -> bytes:
    return struct.pack("!ii", 1, request.type) + bytes(request.serialize())


def blocking(url: str) -> Opened:
    wire = Wire(url)

    def opened(name: str) -> Pair:
        folder = f"/bare-{name}"
        wire.ask(packed(Create2(folder, b"", OPEN_ACL_UNSAFE, 0)))
        create = packed(Create2(f"{folder}/lock-", b"", OPEN_ACL_UNSAFE, EPHEMERAL_SEQUENCE))
        listing = packed(GetChildren(folder, None))
        held: list[str] = []

        def acquire() -> None:
            made, _ = wire.ask(create, listing)
            (size,) = struct.unpack_from("!i", made, _HEADER.size)
            held.append(made[_HEADER.size + 4 : _HEADER.size + 4 + size].decode())

        return Pair(acquire, lambda: wire.ask(packed(Delete(held.pop(), -1))))

    return opened
