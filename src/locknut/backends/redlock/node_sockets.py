"""The blocking connection of one thread to one node: a socket that never blocks.

A question goes out at once if the connection is ready. Until then it is held back; if there is no
connection to wait for, it is refused, and what it was to take back is noted as a debt of the node.
"""

from __future__ import annotations

import errno
import select
import socket
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from hiredis import HiredisError, PushNotification, ReplyError

from locknut.backends.redlock.background_dial import BackgroundDial, address_of, connecting
from locknut.backends.redlock.nodes import Node
from locknut.backends.redlock.questions import (
    UNSAID,
    Hear,
    Question,
    Route,
    hello,
    in_full,
    kind_of,
    nobody_waits,
    run_of,
    script_load,
)
from locknut.backends.redlock.scripts import VOTE
from locknut.drivers.redis import wire
from locknut.drivers.redis.lua_scripts import Script
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from locknut.backends.redlock.thread_connections import ThreadConnections

_AT_ONCE: Final = 65536
MOST_PENDING: Final = 1000
HANGING: Final = 0.05
"""Seconds without an answer after which a node may hang until nobody listens any more: from then on
a withdrawal carries its script, because nobody may be there to send it again."""
Sent = tuple[Script, Question, Hear, float]
"""A command that waits for its answer, and when it was sent."""
_UNASKED: Final = Question(0, lambda _route: UNSAID)
"""Stands for the greeting and for loading a script: no caller asked for those."""


class NodeSocket:
    """The connection of one thread to one node."""

    def __init__(self, node: Node, connections: ThreadConnections):
        self.node = node
        # Weakly, so that there is no cycle: the connections of a thread end with the thread.
        self._connections: ThreadConnections = weakref.proxy(connections)
        self._socket: socket.socket | None = None
        self._dial: BackgroundDial | None = None
        """A connection that another thread is making."""
        self._reader = wire.reader()
        self._ready = False
        self._route = Route(node.at, b"")
        self._pending: deque[Sent] = deque()
        self._held_back: list[tuple[Question, Hear, float]] = []
        """Questions that wait for the connection."""
        self._out = b""
        self._writing = False
        """Whether the poll also reports when the socket can take more."""

    def ask(self, question: Question, hear: Hear, at: float) -> None:
        """Send it, or hold it back until there is a connection. `at` is now, or a moment ago."""
        if self.node.in_debt and self._ready and not self._pending:
            self._repay()  # what another thread could not send
        self._say(question, hear, at)

    def _say(self, question: Question, hear: Hear, at: float) -> None:
        pending = self._pending
        if not self._ready or len(pending) > MOST_PENDING:
            self._ask_later(question, hear, at)
            return
        script, packed = question.words(self._route)
        if not packed:
            hear(question, self.node.refusal("came too late for this"), at)
            return
        if pending and question.owed is not None and at - pending[0][-1] > HANGING:
            packed = in_full(script, packed)
        pending.append((script, question, hear, at))
        self._write(packed)  # last: if the connection breaks here, all pending questions fail

    def _ask_later(self, question: Question, hear: Hear, at: float) -> None:
        if self._socket is None and self._dial is None and self.node.reachable():
            self._connect()
        if self._socket is None and self._dial is None:
            self._refuse(question, hear)
        elif len(self._pending) + len(self._held_back) > MOST_PENDING:
            self._refuse(question, hear, "has not answered for a while")
        else:
            self._held_back.append((question, hear, at))
            self._connections.owes = self._connections.owes or question.owed is not None

    def leave_to_others(self) -> None:
        """Make debts of the withdrawals that wait for a connection: this thread may not look again
        for a long time, or ever.
        """
        held_back = self._held_back
        self._held_back = [each for each in held_back if each[0].owed is None]
        self._owe((question, at) for question, _, at in held_back)

    def _owe(self, questions: Iterable[tuple[Question, float]]) -> None:
        for question, asked in questions:
            if question.owed is not None:
                self.node.owe(question.owed, asked)

    def _refuse(self, question: Question, hear: Hear, why: str = "") -> None:
        if question.owed is not None:
            self.node.owe(question.owed, self.node.now())
        hear(question, self.node.refusal(why), self.node.now())

    def _connect(self) -> None:
        try:
            address = address_of(self.node)
            if address is None:
                dial = BackgroundDial(self.node, self._rung)
                self._dial = dial  # first: it may be done at once
                dial.start()
            else:
                self._connected(connecting(address))
        except OSError as error:
            self._dial = None  # or it would be waited for, for ever
            self.node.unreached(error)

    def _rung(self) -> None:
        """Called from another thread: the connection is made, or that failed."""
        with suppress(ReferenceError):  # the owner of these connections is gone
            self._connections.wake()

    def dialed(self) -> None:
        """Take the connection that another thread has made, if it is ready."""
        dial = self._dial
        if dial is None or not dial.done:
            return
        self._dial = None
        sock = dial.take()
        if sock is None:
            self._break(dial.error or ConnectionAbortedError("given up"))
        else:
            self._connected(sock)

    def _connected(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = wire.reader()
        self._watch(writing=True)
        self._greet()

    def _greet(self) -> None:
        greeting = [
            *wire.greeting(self.node.settings, b"3", curious=True),
            *hello(),
            wire.pack(b"SUBSCRIBE", self._connections.channel),
        ]
        replies: list[Any] = []

        def greeted(_question: Question, reply: Any, _sent: float) -> None:
            replies.append(reply)
            if len(replies) == len(greeting):
                self._greeted(replies)

        for _ in greeting:
            self._pending.append((UNSAID[0], _UNASKED, greeted, self.node.now()))
        self._write(b"".join(greeting))  # in one write: it may find that the connection failed

    def _greeted(self, replies: Sequence[Any]) -> None:
        try:
            if isinstance(replies[-1], ReplyError):
                raise wire.failed(replies[-1])
            welcome = wire.welcome(replies[: -len(hello()) - 1], curious=True)
            self._route = Route(self.node.at, run_of(replies[-2]))
            self.node.met(welcome, kind_of(replies[-2]))
        except Exception as error:  # noqa: BLE001  # the callers get it
            self._break(error)
            return
        self._ready = True
        self.node.reached()
        self._repay()
        held_back, self._held_back = self._held_back, []
        for question, hear, _ in held_back:
            self.ask(question, hear, self.node.now())

    def _repay(self) -> None:
        for claim in self.node.debts():
            self._say(self._connections.repay(self.node.at, claim), nobody_waits, self.node.now())

    def _write(self, packed: bytes = b"") -> None:
        sock, sent = self._socket, 0
        if sock is None:
            return
        unsent = self._out + packed
        try:
            if unsent:
                sent = sock.send(unsent)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            if error.errno not in _CONNECTING:
                self._break(error)
                return
        if self._writing or sent != len(unsent):  # rare: nearly always all of it goes out at once
            self._out = unsent[sent:]
            self._watch(writing=bool(self._out))

    def _watch(self, *, writing: bool) -> None:
        self._writing = writing
        if self._socket is not None:
            self._connections.watch(self, self._socket.fileno(), writing=writing)

    def work(self, event: int) -> None:
        """The poll reported something about the socket."""
        if event & select.POLLOUT:
            self._write()
        sock = self._socket
        if not event & (select.POLLIN | select.POLLHUP | select.POLLERR) or sock is None:
            return
        try:
            data = sock.recv(_AT_ONCE)
            if not data:
                raise ConnectionResetError("the node closed the connection")
            self._reader.feed(data)
            # Until an answer, or what is said to it, breaks the connection: those who wait for the
            # other answers have been told why, and this must not be told again as another error.
            while self._socket is sock and (reply := self._reader.gets()) is not wire.NOTHING:
                self._take(reply)
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, HiredisError, IndexError) as error:
            self._break(error)

    def _take(self, reply: Any) -> None:
        if type(reply) is PushNotification and reply[0] == b"message":
            self._connections.rung(self.node.at, reply[2])
            return
        script, question, hear, at = self._pending.popleft()
        if type(reply) is list:
            hear(question, reply, at)
        elif wire.unscripted(reply):
            self._pending.append((script, _UNASKED, nobody_waits, self.node.now()))
            self._write(script_load(script))
            if not self._ready:  # the connection broke in that moment
                self._refuse(question, hear)
            elif script is VOTE and len(self._pending) > 1:
                # It may have been taken back meanwhile, and must not arrive after that.
                hear(question, self.node.refusal("did not know the script, and does now"), at)
            else:  # the node did nothing, so asking again is safe
                self.ask(question, hear, self.node.now())
        else:
            hear(question, reply, at)
            if wire.elsewhere(reply):
                raise ConnectionResetError("it is not a master any more")

    def age(self, at: float) -> None:
        """Hang up if the node is silent for too long. What it may have got becomes a debt."""
        if self._pending and at - self._pending[0][-1] > self.node.settings.limit:
            self._break(TimeoutError("no answer for too long"))

    def _break(self, error: BaseException) -> None:
        if not self._ready or self._pending:  # an idle node may just have been restarted
            self.node.unreached(error)
        self._give_up(error)

    def tear(self) -> None:
        """The thread was interrupted: the next answer may belong to another question."""
        self._give_up(InterruptedError("interrupted"))

    def _give_up(self, error: BaseException) -> None:
        self.close()
        known = isinstance(error, LocknutError)
        why = error if known else wire.unreachable(self.node.settings, error)
        lost = [each[1:3] for each in self._pending if each[1] is not _UNASKED]
        lost += [each[:2] for each in self._held_back]
        at = self.node.now()
        self._owe((question, at) for question, _ in lost)  # before they are forgotten
        self._pending, self._held_back = deque(), []
        for question, hear in lost:
            hear(question, why, at)

    def close(self) -> None:
        dial, self._dial = self._dial, None
        if dial is not None:
            dial.abandon()
        if self._socket is not None:
            self._connections.forget(self._socket.fileno())
            self._socket.close()
        self._socket = None
        self._ready = False
        self._out = b""

    def hang_up(self) -> None:
        """Close for good, and tell everybody who still waits for an answer."""
        self._break(ConnectionAbortedError("this Locks was closed"))

    def drop(self) -> None:
        """Its thread has ended: what was not answered becomes a debt of the node."""
        self._owe((question, at) for _, question, _, at in self._pending)
        self._owe((question, at) for question, _, at in self._held_back)
        if self._dial is not None:
            self._dial.abandon()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


_CONNECTING: Final = {errno.ENOTCONN, errno.EINPROGRESS}
