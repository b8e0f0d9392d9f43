"""The asyncio connection of one loop to one node: if it is open, a question costs no task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from locknut.backends.redlock.nodes import Node
from locknut.backends.redlock.questions import (
    Hear,
    Question,
    Route,
    hello,
    kind_of,
    nobody_waits,
    run_of,
    script_load,
)
from locknut.backends.redlock.scripts import VOTE
from locknut.drivers.redis import wire
from locknut.drivers.redis.links import Link, LoopDial
from locknut.drivers.redis.streams import Stream
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from locknut.backends.redlock.aio import AsyncioBackend
    from locknut.drivers.redis.lua_scripts import Script


_FEW: Final = 8
"""With at most this many unanswered commands to a node the next one is not collected into a batch:
it goes out at once, as do the others of its round."""


class NodeStream:
    """The stream to one node, and the run of the server at the other end."""

    def __init__(self, node: Node, backend: AsyncioBackend, name: bytes):
        self.node = node
        self.backend = backend
        self.link = Link(node.place, LoopDial(self.pushed, self.lost), (name,))
        self._stream: Stream | None = None
        self._route = Route(node.at, b"")
        """Of the stream that is open now."""

    def ask(self, question: Question, hear: Hear) -> None:
        """Send it at once if the connection is open; else connect first, in a task of its own."""
        stream = self._stream
        if stream is not None and stream is self.link.stream and not stream.closed:
            self.send(stream, self._route, question, hear)
        elif self.node.reachable():
            self.backend.begin(self._ask_later(question, hear))
        else:
            self.lose(question, hear, self.node.refusal())

    def send(self, stream: Stream, route: Route, question: Question, hear: Hear) -> None:
        script, packed = question.words(route)
        if packed:
            stream.ask(packed, PendingQuestion(self, stream, route, question, hear, script), _FEW)
        else:
            hear(question, self.node.refusal("came too late for this"), self.node.now())

    async def _ask_later(self, question: Question, hear: Hear) -> None:
        # The loop passes the answer on to the waiting caller, because a task is running here.
        soon = asyncio.get_running_loop().call_soon

        def heard(*answer: Any) -> None:
            soon(hear, *answer)

        try:
            stream = await self._ready()
        except (LocknutError, OSError) as error:
            self.lose(question, heard, error)
        else:
            script, packed = question.words(self._route)
            if packed:
                stream.ask(
                    packed, PendingQuestion(self, stream, self._route, question, hear, script)
                )
            else:
                heard(question, self.node.refusal("came too late for this"), self.node.now())

    def lose(self, question: Question, hear: Hear, why: BaseException) -> None:
        self.node.silent = True
        if question.owed is not None:
            self.node.owe(question.owed, self.node.now())
        hear(question, why, self.node.now())

    async def _ready(self) -> Stream:
        if not self.node.reachable():
            raise self.node.refusal()
        try:
            stream = await self.link.connected()
            *_, info = await stream.send_many(hello())
            run = run_of(info)
            self.node.met(stream.welcome, kind_of(info))
        except BaseException as error:
            self.node.unreached(error)
            raise
        self.node.reached()
        if stream is not self._stream:  # several may have waited for the same one
            self._stream, self._route = stream, Route(self.node.at, run)
        for claim in self.node.debts():
            self.ask(self.backend.repay(self.node.at, claim), nobody_waits)
        return stream

    def pushed(self, stream: Stream, push: list[Any]) -> None:  # noqa: ARG002 -- one per node
        self.backend.rung(self.node.at, push[2])

    def lost(self, stream: Stream) -> None:  # noqa: ARG002 -- who waits asks again every second
        self._stream = None

    async def answered_all(self) -> None:
        """Wait for the answer to all that was sent before."""
        stream = self._stream
        if stream is not None and stream.waiting:
            await stream.send(wire.pack(b"HELLO"))

    async def close(self) -> None:
        await self.link.close()

    def forked(self) -> None:
        self.link.forked()


class PendingQuestion:
    """A question that waits for its answer: to the stream it is a future."""

    __slots__ = ("_done", "_hear", "_owner", "_question", "_route", "_script", "_sent", "_stream")

    def __init__(  # all that is needed to ask it again
        self,
        owner: NodeStream,
        stream: Stream,
        route: Route,
        question: Question,
        hear: Hear,
        script: Script,
    ):
        self._owner = owner
        self._stream = stream
        self._route = route
        self._question = question
        self._hear = hear
        self._script = script
        self._sent = owner.node.now()
        self._done = False

    def done(self) -> bool:
        """Not before it is answered: a late vote is of use too."""
        return self._done

    def set_result(self, reply: Any) -> None:
        self._done = True
        owner = self._owner
        if type(reply) is not list:
            if wire.unscripted(reply):
                self._ask_again()
                return
            if wire.elsewhere(reply):  # not a master any more: find out which server is
                owner.link.forget()
        self._hear(self._question, reply, self._sent)
        if owner.backend.closed:  # this was the last answer to wait for
            owner.backend.begin(owner.close())

    def _ask_again(self) -> None:
        """The node did nothing, so asking again is safe; by the stream that was noted for it."""
        stream, question = self._stream, self._question
        nobody = question._replace(owed=None)
        load = PendingQuestion(self._owner, stream, self._route, nobody, nobody_waits, self._script)
        stream.ask(script_load(self._script), load)
        if self._script is VOTE and stream.waiting > 1:
            # It may have been taken back meanwhile, and must not arrive after that.
            why = self._owner.node.refusal("did not know the script, and does now")
            self._hear(question, why, self._sent)
        else:
            self._owner.send(stream, self._route, question, self._hear)

    def set_exception(self, error: BaseException) -> None:
        self._done = True
        # As a future does it: the waiting caller goes on in a step of its own.
        loop = asyncio.get_running_loop()
        loop.call_soon(self._owner.lose, self._question, self._hear, error)
