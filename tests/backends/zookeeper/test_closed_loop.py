"""A Locks whose loop was closed is still closed properly, on the loop that runs then."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

from kazoo.protocol.serialization import Sync

from locknut.backends.zookeeper.aio import AsyncioBackend
from locknut.backends.zookeeper.session import Session
from locknut.runtimes.loop import LoopRuntime


class _Settings:
    hosts = ("localhost",)
    session_timeout = 10.0


class _Batch:
    failed = False
    answers = ("answer",)


class _Session:
    """Answers from another thread, as kazoo does; no server is needed."""

    settings = _Settings()
    connected = True
    closed = False

    def join(self) -> None:
        """Nobody counts."""

    def send(self, _: object, done: Any) -> _Batch:
        batch = _Batch()
        threading.Timer(0.05, done, (batch,)).start()
        return batch

    def leave(self) -> threading.Thread:
        closing = threading.Timer(0.05, bool)
        closing.start()
        return closing


async def _bind(runtime: LoopRuntime) -> None:
    runtime.caller()


def test_commands_and_closing_work_on_another_loop_when_their_own_is_gone() -> None:
    runtime = LoopRuntime()
    backend = AsyncioBackend(cast("Session", _Session()), runtime)
    asyncio.run(_bind(runtime))

    async def last_words() -> object:
        answers = await backend.ask(Sync("/"))
        await backend.close()
        return answers

    assert asyncio.run(last_words()) == ("answer",)
