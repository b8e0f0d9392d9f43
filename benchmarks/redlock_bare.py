"""The limit on five nodes: a bare socket to each, one poll for all, and a majority is enough.

It is no library: no clocks, no quarantine, no numbers in order, nothing about nodes that come back.
What answers late is read with the next answer.
"""

from __future__ import annotations

import os
import select
import socket
from typing import Any

import hiredis

from benchmarks.kinds import Opened, Pair
from benchmarks.redis_bare import PAIR, TTL_MS, packed


class Quorum:
    """Sockets to all nodes, of which a majority must answer."""

    def __init__(self, nodes: list[tuple[str, int]]):
        self._poll = select.poll()
        self._needed = len(nodes) // 2 + 1
        self._sockets: dict[int, socket.socket] = {}
        self._readers: dict[int, Any] = {}
        self._unread: dict[int, int] = {}
        for place in nodes:
            try:
                sock = socket.create_connection(place, 1.0)
            except OSError:
                continue  # one that is dead
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            self._sockets[sock.fileno()] = sock
            self._readers[sock.fileno()] = hiredis.Reader()
            self._unread[sock.fileno()] = 0
            self._poll.register(sock, select.POLLIN)

    def ask(self, command: bytes) -> list[Any]:
        """The answers of the fastest majority."""
        for fd, sock in self._sockets.items():
            if self._unread[fd] < 100:  # whoever hangs is left alone after a while
                sock.send(command)
                self._unread[fd] += 1
        found: list[Any] = []
        while len(found) < self._needed:
            for fd, _ in self._poll.poll():
                reader = self._readers[fd]
                reader.feed(self._sockets[fd].recv(4096))
                while (answer := reader.gets()) is not False:
                    self._unread[fd] -= 1
                    if not self._unread[fd]:
                        found.append(answer)
        return found


def blocking(url: str) -> Opened:
    """A set of sockets for each caller."""

    def opened(name: str) -> Pair:
        quorum = Quorum(nodes_of(url))
        shas = [hiredis_sha(quorum, script) for script in (PAIR.acquire, PAIR.release)]
        keys = (f"bare:{name}", f"bare:{name}:fence", f"bare:{name}:line")
        whose = os.urandom(8).hex()
        acquire, release = (packed("EVALSHA", sha, 3, *keys, whose, TTL_MS) for sha in shas)
        return Pair(lambda: quorum.ask(acquire), lambda: quorum.ask(release))

    return opened


def hiredis_sha(quorum: Quorum, script: str) -> bytes:
    """The name of a script that a majority has now, and the others in a moment."""
    sha: bytes = quorum.ask(packed("SCRIPT", "LOAD", script))[0]
    return sha


def nodes_of(url: str) -> list[tuple[str, int]]:
    """Host and port of each node of a `redlock:` URL."""
    hosts = url.removeprefix("redlock://").partition("?")[0].split(",")
    return [(host, int(port)) for host, _, port in (each.partition(":") for each in hosts)]
