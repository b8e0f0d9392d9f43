"""An answer is a future to whoever awaits it, and wakes him in the step that reads it."""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from locknut.drivers.redis import wire
from locknut.drivers.redis.links import LoopDial
from locknut.drivers.redis.settings import read
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendUnavailable
from locknut.runtimes.inline_future import InlineFuture
from locknut.urls import parse
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


def told(text: bytes) -> bytes:
    return wire.pack(b"ECHO", text)


async def opened(url: str) -> Stream:
    return await LoopDial(lambda *_: None, lambda _: None).open(read(parse(url)))


async def asleep() -> None:
    """Until every task has come as far as it can."""
    for _ in range(3):
        await asyncio.sleep(0)


def in_no_task(call: Any) -> None:
    """As what a loop reads: no task is running."""
    asyncio.get_running_loop().call_soon(call)


def test_who_awaits_it_goes_on_at_once_in_his_own_context() -> None:
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="outside")
    seen: list[object] = []

    async def story() -> None:
        reply = InlineFuture(asyncio.get_running_loop())

        async def waits() -> None:
            place.set("inside")
            seen.extend((await reply, place.get(), asyncio.current_task()))

        def answered() -> None:
            reply.set_result(7)
            seen.append("read")

        task = asyncio.create_task(waits())
        await asleep()
        in_no_task(answered)
        await task
        assert seen == [7, "inside", task, "read"]

    asyncio.run(story())


def test_it_can_be_waited_for_with_a_limit() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        first, second = InlineFuture(loop), InlineFuture(loop)
        in_no_task(lambda: first.set_result(1))
        assert await first == 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second, 0.001)
        assert second.cancelled()
        failing = InlineFuture(loop)
        in_no_task(lambda: failing.set_exception(ValueError("no")))
        with pytest.raises(ValueError, match="no"):
            await failing
        assert isinstance(failing.exception(), ValueError)
        assert await first == 1

    asyncio.run(story())


def test_what_goes_wrong_in_a_callback_is_told_to_the_loop() -> None:
    async def story() -> None:
        loop, problems = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, problem: problems.append(problem["exception"]))
        reply = InlineFuture(loop)
        calls: list[Any] = []
        reply.add_done_callback(lambda _: calls.remove("nothing"))
        reply.add_done_callback(calls.append)
        reply.set_result(1)
        assert calls == [reply]
        assert [type(each) for each in problems] == [ValueError]

    asyncio.run(story())


def test_a_cancelled_caller_disturbs_nobody(redis_server: RedisServer) -> None:
    async def story() -> None:
        stream = await opened(redis_server.url)

        async def ask(text: bytes) -> Any:
            return await stream.send(told(text))

        tasks = [asyncio.create_task(ask(b"%d" % each)) for each in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert done[1::2] == [b"%d" % each for each in range(1, 20, 2)]
        assert all(isinstance(each, asyncio.CancelledError) for each in done[::2])
        stream.close()
        await stream.ended

    asyncio.run(story())


def test_who_waits_for_several_answers_can_be_cancelled() -> None:
    """It happens to a connection that is being made when `asyncio.run` ends; it hung there."""

    async def story(silent: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(opened(f"redis://127.0.0.1:{silent.getsockname()[1]}"))
        peer, _ = await loop.sock_accept(silent)
        with peer:
            assert await loop.sock_recv(peer, 1000)  # it has said hello, and is not answered
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=10)
            assert done == {task}
            assert task.cancelled()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        asyncio.run(story(silent))


def test_commands_sent_together_are_answered_in_order(redis_server: RedisServer) -> None:
    async def story() -> None:
        stream = await opened(redis_server.url)
        said = await stream.send_many(told(b"%d" % each) for each in range(20))
        assert said == [b"%d" % each for each in range(20)]
        stream.close()
        await stream.ended

    asyncio.run(story())


@pytest.mark.parametrize("why", [KeyboardInterrupt, SystemExit])
def test_who_is_interrupted_leaves_the_others_their_answers(
    redis_server: RedisServer, why: type[BaseException]
) -> None:
    """Ctrl-C comes out of the loop in the middle of what was read; who runs it on loses nothing."""
    loop = asyncio.new_event_loop()

    async def ask(stream: Stream, text: bytes) -> Any:
        said = await stream.send(told(text))
        if text == b"1":
            raise why
        return said

    stream = loop.run_until_complete(opened(redis_server.url))
    tasks = [loop.create_task(ask(stream, b"%d" % each)) for each in range(4)]
    with pytest.raises(why):
        loop.run_until_complete(asyncio.wait(tasks, timeout=30))
    others = asyncio.gather(*(each for at, each in enumerate(tasks) if at != 1))
    assert loop.run_until_complete(asyncio.wait_for(others, 30)) == [b"0", b"2", b"3"]
    stream.close()
    loop.run_until_complete(stream.ended)
    tasks[1].exception()
    loop.close()


class Interrupted(deque[Any]):
    """Ctrl-C at one of the steps of a stream, once."""

    def __init__(self, step: str, *, done: bool) -> None:
        super().__init__()
        self._step, self._done = step, done

    def append(self, each: Any) -> None:
        self._at("append", lambda: super(Interrupted, self).append(each))

    def popleft(self) -> Any:
        return self._at("popleft", super().popleft)

    def _at(self, step: str, do: Callable[[], Any]) -> Any:
        if self._step != step:
            return do()
        self._step = ""
        if self._done:
            do()
        raise KeyboardInterrupt


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("step", ["append", "popleft"])
def test_after_an_interrupt_no_answer_is_taken_for_anothers(
    redis_server: RedisServer, step: str, done: bool
) -> None:
    """Between sending a question and noting it, or reading an answer and telling it."""
    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(opened(redis_server.url))
    stream._pending = Interrupted(step, done=done)

    async def ask(text: bytes) -> Any:
        return await stream.send(told(text)) == text

    tasks = [loop.create_task(ask(b"%d" % each)) for each in range(6)]
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.wait(tasks, timeout=30))
    loop.run_until_complete(asyncio.wait(tasks, timeout=30))
    assert all(each.done() for each in tasks), "somebody waits for ever"
    errors = [each.exception() for each in tasks]
    assert all(
        error is not None or each.result() for error, each in zip(errors, tasks, strict=True)
    )
    assert any(isinstance(error, BackendUnavailable) for error in errors)
    loop.run_until_complete(stream.ended)
    loop.close()
