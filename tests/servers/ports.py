"""Ports of the loopback that stay with whoever reserved them, also while nobody listens there."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


class Ports:
    """What one server has reserved, until it gives them back.

    A port that was found free and let go can be found by the next one who looks, before the server
    listens there or while it is down. So a socket stays bound to it that never listens: with
    SO_REUSEADDR, as every server sets it too, it keeps nobody from listening at this port by its
    number, and everybody from being given it as a free one. Connections are refused as ever.
    """

    def __init__(self) -> None:
        self._bound: list[socket.socket] = []

    def reserve(self, count: int) -> list[int]:
        """So many, all different."""
        return [self._reserve() for _ in range(count)]

    def _reserve(self) -> int:
        bound = socket.socket()
        self._bound.append(bound)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, 0))
        return int(bound.getsockname()[1])

    def close(self) -> None:
        """Anybody may have them now."""
        while self._bound:
            self._bound.pop().close()
