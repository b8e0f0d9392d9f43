"""The production backend of the asyncio colour, on as much of a loop as it uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from locknut.backends.redlock.aio import AsyncioBackend
from locknut.backends.redlock.questions import Question
from locknut.backends.redlock.rounds import Heard, Until
from locknut.core.values import Claim
from tests.simulation.checker.history import Kind
from tests.simulation.process import Process, SimRuntime
from tests.simulation.redis import aio
from tests.simulation.redlock.node_set import Cluster, marked
from tests.simulation.redlock.sync import LIMIT


class Handle:
    """A timer."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel


class Loop(aio.Loop):
    """First come, first served, as in asyncio: what is sent first goes out first."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._ready: deque[Callable[[], None]] = deque()

    def call_soon(self, call: Callable[..., None], *words: Any) -> None:
        self._ready.append(partial(call, *words))
        self._process.soon(self._turn)

    def _turn(self) -> None:
        self._ready.popleft()()

    def call_later(self, seconds: float, call: Callable[..., None], *words: Any) -> Handle:
        process = self._process
        return Handle(process.at(process.now() + seconds, lambda: call(*words)))

    def create_task(self, work: Coroutine[Any, Any, Any]) -> LoopTask:
        return LoopTask(self._process, self, work)


class LoopTask:
    """A task as the production code uses one; nobody cancels it."""

    def __init__(self, process: Process, loop: Loop, work: Coroutine[Any, Any, Any]) -> None:
        self._process = process
        self._loop = loop
        self._work = work
        self._ended = False
        self._result: Any = None
        self._callbacks: list[Callable[[Any], object]] = []
        loop.call_soon(self._step)

    def done(self) -> bool:
        return self._ended

    def cancelled(self) -> bool:
        return False

    def result(self) -> Any:
        return self._result

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        self._callbacks.append(call)

    def _step(self) -> None:
        try:
            awaited = self._work.send(None)
        except StopIteration as end:
            self._result = end.value
        except Exception as error:  # noqa: BLE001  # a mistake of ours: the history tells of it
            self._process.tell(Kind.LEFT, note=f"a task of the loop died of {error!r}")
            return
        else:
            awaited.on_done(lambda: self._loop.call_soon(self._step))
            return
        self._ended = True
        for call in self._callbacks:
            self._loop.call_soon(lambda call=call: call(self))


class Asyncio:
    """Stands for the module `asyncio`."""

    @staticmethod
    def get_running_loop() -> Loop:
        process = Process.running
        assert process is not None
        if process.loop is None:
            process.loop = Loop(process)
        loop: Loop = process.loop
        return loop

    @staticmethod
    async def gather(*works: Awaitable[Any]) -> list[Any]:
        return [await each for each in works]


class SimAsyncio(AsyncioBackend):
    """The asyncio colour."""

    _new_reply: Any = aio.LoopFuture

    def __init__(self, process: Process, cluster: Cluster) -> None:
        _, nodes, recipe, servers = cluster.known_by(process)
        super().__init__(nodes, recipe, LIMIT, SimRuntime(process))
        self._cluster = cluster
        for stream, node in zip(self._streams, servers, strict=True):
            link = stream.link
            dial: Any = aio.Dial(stream, process, node, Asyncio.get_running_loop)
            joint: Any = aio.Joint(process)
            link._dial, link._connecting = dial, joint

    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        await super()._ask([marked(each) for each in questions], heard, until)

    def repay(self, node: int, claim: Claim) -> Question:
        return marked(super().repay(node, claim))
