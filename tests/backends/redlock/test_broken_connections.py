"""A connection that breaks amid the answers that have come: why it broke is told, once."""

from __future__ import annotations

import select
import socket
from typing import Any

from locknut.backends.redlock.node_sockets import NodeSocket
from locknut.backends.redlock.nodes import Node
from locknut.backends.redlock.questions import UNSAID, Question
from locknut.backends.redlock.scripts import VOTE
from locknut.drivers.redis import settings
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.runtimes.clock import now
from locknut.urls import parse


class Connections:
    """Those of a thread that polls by hand."""

    owes = False

    def watch(self, *_: object, **__: object) -> None:
        """Nobody polls."""

    def forget(self, _: int) -> None:
        """As above."""


def test_what_came_after_the_break_is_no_other_error() -> None:
    """Two answers are read together, and what the first one calls for cannot be sent any more."""
    node = Node(0, FixedEndpoint(settings.read(parse("redis://127.0.0.1:1"))), 60.0, now)
    connections: Any = Connections()
    connection: Any = NodeSocket(node, connections)
    heard: list[object] = []
    question = Question(0, lambda _route: UNSAID)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        ours.shutdown(socket.SHUT_WR)
        connection._socket, connection._ready = ours, True
        for _ in range(2):
            asked = (VOTE, question, lambda _question, answer, _at: heard.append(answer), now())
            connection._pending.append(asked)
        theirs.sendall(b"-NOSCRIPT No matching script.\r\n" * 2)
        connection.work(select.POLLIN)
    assert len(heard) == 2
    assert isinstance(node.trouble, BrokenPipeError)
