"""The blocking connections of one thread to all nodes: one poll for all of them.

They belong to one thread, so that what it sends to a node arrives in order: a late vote never
arrives after the withdrawal that was sent after it.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from locknut.backends.redlock.node_sockets import NodeSocket
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Question, nobody_waits
from locknut.runtimes import sockets
from locknut.runtimes.threads import Guard

IDLE_UNCHECKED: Final = 0.01
"""Seconds after which idle connections are checked before they are used: a node that restarted has
hung up. Within that time, what came in is read together with the next answer."""


class ThreadConnections:
    """One thread's connections to all nodes."""

    by_node: Sequence[NodeSocket] = ()
    _wires: Sequence[socket.socket] = ()
    """The bell, and what rings it. Both have a default because `__init__` may be interrupted."""

    def __init__(
        self,
        nodes: NodeSet,
        repay: Callable[[int, Any], Question],
        rung: Callable[[int, bytes], None],
    ):
        self.now = nodes.now
        self.repay = repay
        self.rung = rung
        self.channel = b"locknut:" + os.urandom(16).hex().encode()
        """The channel on which the nodes ring us."""
        self._poll = select.poll()
        self._by_fd: dict[int, NodeSocket] = {}
        self._bell, self._clapper = self._wires = sockets.open_pair()
        self._bell.setblocking(False)
        self._clapper.setblocking(False)
        self._poll.register(self._bell, select.POLLIN)
        self._mutex = Guard()
        """Held while its thread is at work, because another thread may close it. It is not taken in
        a generator: one that is interrupted in its `__exit__` keeps it until it is collected."""
        self._torn = False
        """Set while its thread is at work, so it stays set if that is interrupted (Ctrl-C): then
        nobody knows what was sent and read, and no connection can be used any more."""
        self._retired = False
        self.owes = False
        """Whether a withdrawal waits for a connection."""
        self._worked = 0.0
        """When it last looked at the poll."""
        self._looked = 0.0
        """When it last checked for nodes that do not answer."""
        self.by_node = [NodeSocket(node, self) for node in nodes.nodes]

    def at_work(self) -> bool:
        """Whether this thread is at work: then a finalizer or a signal handler is calling."""
        return self._mutex.inside()

    def watch(self, user: NodeSocket, fd: int, *, writing: bool) -> None:
        self._by_fd[fd] = user
        self._poll.register(fd, select.POLLIN | (select.POLLOUT if writing else 0))

    def forget(self, fd: int) -> None:
        self._by_fd.pop(fd, None)
        with suppress(KeyError, ValueError):  # gone or closed already: Ctrl-C came in between
            self._poll.unregister(fd)

    def ask(
        self,
        questions: Sequence[Question],
        heard: Callable[[Question, Any, float], bool],
        until: Callable[[], float],
    ) -> None:
        with self._mutex:
            self._begin()
            self._ask(questions, heard, until)
            self._end()

    def _ask(
        self,
        questions: Sequence[Question],
        heard: Callable[[Question, Any, float], bool],
        until: Callable[[], float],
    ) -> None:
        at = self.now()
        if at - self._worked > IDLE_UNCHECKED:
            self._work(0.0)  # read late answers, and notice nodes that hung up
            at = self.now()
        left = len(questions)
        decided = False

        def hear(question: Question, reply: Any, sent: float) -> None:
            nonlocal left, decided
            left -= 1
            decided = heard(question, reply, sent) or decided

        for question in questions:
            self.by_node[question.node].ask(question, hear, at)
        while left and not decided and (patience := until() - self.now()) > 0:
            self._work(patience)

    def tell(self, questions: Sequence[Question]) -> None:
        with self._mutex:
            self._begin()
            for question in questions:
                self.by_node[question.node].ask(question, nobody_waits, self.now())
            self._end()

    def work(self, patience: float) -> None:
        """Wait until something happens on any connection, and handle it."""
        with self._mutex:
            self._begin()
            self._work(patience)
            self._end()

    def _begin(self) -> None:
        if self._torn:
            for each in self.by_node:
                each.tear()
        self._torn = True

    def _end(self) -> None:
        self._torn = False
        if self._retired or self.owes:
            self._last_word()

    def _last_word(self) -> None:
        if self._retired:  # another thread closed it meanwhile
            self._hang_up()
        if self.owes:
            self.owes = False
            for each in self.by_node:
                each.leave_to_others()

    def _work(self, patience: float) -> None:
        for fd, event in self._poll.poll(max(0.0, patience) * 1000):
            user = self._by_fd.get(fd)
            if user is not None:
                user.work(event)
            elif fd == self._bell.fileno():
                with suppress(BlockingIOError):
                    self._bell.recv(64)
                for each in self.by_node:
                    each.dialed()
        self._worked = at = self.now()
        if at - self._looked > IDLE_UNCHECKED:
            self._looked = at
            for each in self.by_node:
                each.age(at)

    def wake(self) -> None:
        """Called from another thread: the thread that waits in `work` goes on."""
        with suppress(OSError):
            self._clapper.send(b"!")

    def retire(self) -> None:
        """Hang up after each piece of work from now on."""
        self._retired = True

    def close(self) -> None:
        """Called from any thread: hang up at once, or when its own thread has finished its work."""
        self.retire()
        if self._mutex.acquire(blocking=False):
            try:
                self._hang_up()
            finally:
                self._mutex.release()
        else:
            self.wake()

    def _hang_up(self) -> None:
        for each in self.by_node:
            each.hang_up()

    def __del__(self) -> None:
        for each in self.by_node:
            each.drop()
        for wire in self._wires:
            wire.close()
