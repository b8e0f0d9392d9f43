"""What replicas have to confirm (WAIT) before it is believed, and how that costs no round trip.

Redis replicates after it has answered. `WAIT`, sent right behind a command on the same connection,
says how many replicas have got it; what too few have got is `Unconfirmed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hiredis import ReplyError

from locknut.drivers.redis import wire
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendUnavailable


class Unconfirmed(BackendUnavailable):
    """It was done, but too few replicas know of it."""

    reply: Any = None
    """What the server answered."""


class Confirmation:
    """How many replicas, and how long they may take."""

    def __init__(self, settings: Settings):
        self._replicas = settings.replicas
        self._message = (
            f"not confirmed by {settings.replicas} replica(s) within "
            f"{settings.replicas_limit:g} s, so it does not count"
        )
        self.limit = settings.replicas_limit
        milliseconds = b"%d" % (settings.replicas_limit * 1000)
        self.question = wire.pack(b"WAIT", b"%d" % settings.replicas, milliseconds)

    def missed(self) -> BackendUnavailable:
        """For what was not even asked, because replicas did not confirm just now."""
        return BackendUnavailable(self._message, backend="redis")

    def judge(self, answers: Sequence[Any]) -> list[Any]:
        """Answers, the last of them to the question, without it.

        An error of a command stands: what WAIT says, or that it is refused too, comes second.
        """
        *replies, count = answers
        if isinstance(count, ReplyError):
            return [reply if isinstance(reply, Exception) else count for reply in replies]
        if count >= self._replicas:
            return replies
        return [
            reply if isinstance(reply, Exception) else self._unconfirmed(reply) for reply in replies
        ]

    def _unconfirmed(self, reply: Any) -> Unconfirmed:
        error = Unconfirmed(self._message, backend="redis")
        error.reply = reply
        return error


class Gathered:
    """On a loop: while replicas are waited for, what else comes is gathered, and asked as one.

    WAIT holds up all that is sent after it, so these commands have connections of their own, and
    never more than one WAIT is out: a replica that is gone costs its time once, not once for each.
    """

    def __init__(self, send: Callable[[Sequence[bytes]], Awaitable[list[Any]]]):
        self._send = send
        self._queue: list[tuple[Sequence[bytes], asyncio.Future[list[Any]]]] = []
        self._task: asyncio.Task[None] | None = None

    async def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        loop = asyncio.get_running_loop()
        answers: asyncio.Future[list[Any]] = loop.create_future()
        self._queue.append((packed, answers))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return await answers

    async def _work(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._answer(batch)
        finally:
            self._task = None

    async def _answer(self, batch: list[tuple[Sequence[bytes], asyncio.Future[list[Any]]]]) -> None:
        try:
            replies = await self._send([each for packed, _ in batch for each in packed])
        except BaseException as error:
            for _, answers in batch:
                if not answers.done():
                    answers.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for packed, answers in batch:
            own, replies = replies[: len(packed)], replies[len(packed) :]
            if not answers.done():
                answers.set_result(own)

    def forked(self) -> None:
        self._task = None
        self._queue = []
