"""The asyncio colour: one connection per node for all tasks, on which the node also rings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from locknut.backends.redlock.backend import RedlockBackend
from locknut.backends.redlock.node_rings import GRACE, WaitingClaim
from locknut.backends.redlock.node_streams import NodeStream
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Question, nobody_waits
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.rounds import Heard, Until
from locknut.core.ports import Runtime, Signal
from locknut.drivers.redis.links import drop
from locknut.runtimes.inline_future import InlineFuture


class AsyncioBackend(RedlockBackend):
    """All tasks share one connection per node."""

    _new_reply: Callable[[Any], InlineFuture] = InlineFuture

    def __init__(self, nodes: NodeSet, recipe: Recipe, limit: float, runtime: Runtime):
        super().__init__(nodes, recipe, limit, runtime)
        self._name = b"locknut:" + os.urandom(16).hex().encode()
        self._streams = [NodeStream(node, self, self._name) for node in nodes.nodes]
        self._running: set[asyncio.Task[Any]] = set()

    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        loop = asyncio.get_running_loop()
        decided = self._new_reply(loop)
        left = len(questions)

        def hear(question: Question, answer: Any, sent: float) -> None:
            nonlocal left
            left -= 1
            if (heard(question, answer, sent) or not left) and not decided.done():
                decided.set_result(None)

        for question in questions:
            self._streams[question.node].ask(question, hear)
        timer = loop.call_later(self.limit, self._end_in_time, loop, until, decided)
        try:
            await decided
        finally:
            timer.cancel()

    def _end_in_time(
        self, loop: asyncio.AbstractEventLoop, until: Until, decided: InlineFuture
    ) -> None:
        """End the round if the silent nodes have had their time; else look again later."""
        patience = until() - self.now()
        if decided.done():
            return
        if patience > 0:
            loop.call_later(patience, self._end_in_time, loop, until, decided)
        else:
            decided.set_result(None)

    def _tell(self, questions: Sequence[Question]) -> None:
        for question in questions:
            self._streams[question.node].ask(question, nobody_waits)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this in a task of its own: nobody waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _signal(self, waiting: WaitingClaim, plain: Signal) -> Signal:
        waiting.listening = self._name
        return plain

    def rung(self, node: int, claim_id: bytes) -> None:
        waiting = self._waiting.get(claim_id.decode())
        if waiting is None or waiting.signal is None:
            return
        first = not waiting.rung
        if waiting.rung_by(node):
            waiting.signal.notify()
        elif first:
            asyncio.get_running_loop().call_later(GRACE, waiting.signal.notify)

    async def close(self) -> None:
        """Wait for the answers that are under way, at most for the time of one question."""
        self.closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limit):
                await self._answered_all()
        for stream in self._streams:
            await stream.close()

    def dropped(self) -> None:
        drop([stream.link for stream in self._streams], closed=self.closed)
        self.closed = True

    async def _answered_all(self) -> None:
        if self._running:
            await asyncio.wait(self._running)
        answered = [stream.answered_all() for stream in self._streams]
        await asyncio.gather(*answered, return_exceptions=True)

    def forked(self) -> None:
        for stream in self._streams:
            stream.forked()
        self._running.clear()
        self._waiting.clear()
