"""A server that says something else in one place: its answers pass through here and are changed.

Only what has the same length can be put in place of something, because answers carry their lengths.
Or else the connection is cut there, and the answer is lost.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Rewriting:
    """Listens on a port of its own and passes everything on to `target`; without `new`, it hangs up
    where the server says `old`.
    """

    def __init__(self, target: tuple[str, int], old: bytes, new: bytes | None) -> None:
        assert new is None or len(old) == len(new)
        self._target, self._old, self._new = target, old, new
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._open += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 20):
                if self._new is None and self._old in data:
                    break
                other.sendall(data.replace(self._old, self._new or self._old))
            other.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
