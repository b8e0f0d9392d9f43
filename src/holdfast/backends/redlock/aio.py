"""The asyncio colour: one connection per node for all tasks, on which the node also rings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.backends.redis import wire
from holdfast.backends.redis.links import Link, LoopDial
from holdfast.backends.redis.streams import Stream
from holdfast.backends.redlock.asking import Heard, Until
from holdfast.backends.redlock.backend import RedlockBackend
from holdfast.backends.redlock.lines import Line
from holdfast.backends.redlock.nodes import Node, Set
from holdfast.backends.redlock.questions import Question, hello, kind_of, run_of, script_load
from holdfast.backends.redlock.recipe import Recipe
from holdfast.backends.redlock.scripts import VOTE
from holdfast.backends.redlock.waiting import GRACE, Waiting
from holdfast.core.ports import Signal
from holdfast.errors import HoldfastError
from holdfast.runtimes.clock import now


class Channel:
    """The stream to one node, and the run of the server at its end."""

    def __init__(self, node: Node, backend: AsyncioBackend, name: bytes):
        self.node = node
        self._backend = backend
        dial = LoopDial(self._pushed, self._lost)
        self._link = Link(node.place, dial, (name,))
        self._stream: Stream | None = None
        self._line = Line(node.at, b"")

    async def ask(self, question: Question) -> Any:
        """The answer, or the error that stands for it: nobody else is spoiled by it."""
        try:
            stream = await self._ready()
            line = self._line  # the stream's: by now there may be another when it is asked again
            script, packed = question.words(line)
            if not packed:
                return self.node.refusal("came too late for this")
            reply = await stream.send(packed)
            if wire.unscripted(reply):
                load = stream.send(script_load(script))
                if script is VOTE and stream.waiting > 1:
                    # It may have been taken back meanwhile, and must not arrive behind that.
                    return self.node.refusal("did not know the script, and does now")
                _, packed = question.words(line)
                if not packed:
                    return self.node.refusal("came too late for this")
                _, reply = await asyncio.gather(load, stream.send(packed))
            if wire.elsewhere(reply):  # it is no master any more: who is, is to be found out
                self._link.forget()
        except (HoldfastError, OSError) as error:
            self.node.silent = True
            if question.owed is not None:
                self.node.owe(question.owed)
            return error
        finally:
            if self._backend.closed:  # this was a last word
                await self._link.close()
        return reply

    async def _ready(self) -> Stream:
        stream = self._link.stream
        if stream is not None and stream is self._stream and not stream.closed:
            return stream
        if not self.node.reachable():
            raise self.node.refusal()
        try:
            stream = await self._link.connected()
            *_, info = await asyncio.gather(*map(stream.send, hello()))
            run = run_of(info)
            self.node.met(stream.welcome, kind_of(info))
        except BaseException as error:
            self.node.unreached(error)
            raise
        self.node.reached()
        if stream is not self._stream:  # others may have waited for it too
            self._stream, self._line = stream, Line(self.node.at, run)
        for claim in self.node.debts():
            _ = self._backend.begin(self._backend.repay(self.node.at, claim))
        return stream

    def _pushed(self, stream: Stream, push: list[Any]) -> None:  # noqa: ARG002 -- one per node
        self._backend.rung(self.node.at, push[2])

    def _lost(self, stream: Stream) -> None:  # noqa: ARG002 -- who waits asks again every second
        self._stream = None

    async def close(self) -> None:
        await self._link.close()

    def forked(self) -> None:
        self._link.forked()


class AsyncioBackend(RedlockBackend):
    """All tasks share one connection per node."""

    def __init__(self, nodes: Set, recipe: Recipe, limit: float):
        super().__init__(nodes, recipe, limit)
        self._name = b"holdfast:" + os.urandom(16).hex().encode()
        self._channels = [Channel(node, self, self._name) for node in nodes.nodes]
        self._running: set[asyncio.Task[Any]] = set()
        self.closed = False

    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        loop = asyncio.get_running_loop()
        decided = loop.create_future()
        left = len(questions)

        def answered(question: Question, sent: float, task: asyncio.Task[Any]) -> None:
            nonlocal left
            left -= 1
            if task.cancelled():
                return
            if (heard(question, task.result(), sent) or not left) and not decided.done():
                decided.set_result(None)

        for question in questions:
            task = self.begin(question)
            task.add_done_callback(partial(answered, question, now()))

        timer = loop.call_later(self.limit, _look, loop, until, decided)
        try:
            await decided
        finally:
            timer.cancel()

    def _tell(self, questions: Sequence[Question]) -> None:
        for question in questions:
            _ = self.begin(question)

    def begin(self, question: Question) -> asyncio.Task[Any]:
        """Ask in a task of its own: it goes on when the outcome is decided without it."""
        work = self._channels[question.node].ask(question)
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _signal(self, waiting: Waiting, plain: Signal) -> Signal:
        waiting.listening = self._name
        return plain

    def rung(self, node: int, claim_id: bytes) -> None:
        waiting = self._waiting.get(claim_id.decode())
        if waiting is None or waiting.signal is None:
            return
        first = not waiting.rung
        if waiting.told(node):
            waiting.signal.notify()
        elif first:
            asyncio.get_running_loop().call_later(GRACE, waiting.signal.notify)

    async def close(self) -> None:
        self.closed = True
        pending = [task for task in self._running if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=self.limit)
        for channel in self._channels:
            await channel.close()

    def forked(self) -> None:
        for channel in self._channels:
            channel.forked()
        self._running.clear()
        self._waiting.clear()


def _look(loop: asyncio.AbstractEventLoop, until: Until, decided: asyncio.Future[None]) -> None:
    """Whether those who have not answered have had their time."""
    patience = until() - now()
    if decided.done():
        return
    if patience > 0:
        loop.call_later(patience, _look, loop, until, decided)
    else:
        decided.set_result(None)
