"""A command on a loop runs to its end in its caller's task, which is told of its cancellation then.

On the standard loop, on uvloop, with tasks written in Python, and with eager ones (3.12).
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from locknut.errors import BackendUnavailable
from locknut.runtimes import shield
from locknut.runtimes.loop import LoopRuntime

Story = Callable[[LoopRuntime], Coroutine[Any, Any, None]]
_PythonTask: Any = asyncio.tasks._PyTask  # type: ignore[attr-defined]
STEPS = 8


def _python_tasks(loop: asyncio.AbstractEventLoop, work: Any, **facts: Any) -> Any:
    return _PythonTask(work, loop=loop, **facts)


def _tell(story: Story, kind: str) -> None:
    loop = uvloop.new_event_loop() if kind == "uvloop" else asyncio.new_event_loop()
    if kind == "python tasks":
        loop.set_task_factory(_python_tasks)
    elif kind == "eager":
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(asyncio.wait_for(story(LoopRuntime()), 20))


KINDS = ["asyncio", "uvloop", "python tasks"]
if sys.version_info >= (3, 12):
    KINDS.append("eager")


@pytest.fixture(params=KINDS)
def tell(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    return lambda story: _tell(story, request.param)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled caller waits until the end, however busy the machine is."""
    monkeypatch.setattr(shield, "GRACE", 60.0)


async def _later(value: int, delay: float = 0.001) -> int:
    """Through a future of its own, as an answer comes."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(delay, future.set_result, value)
    awaited: int = await future
    return awaited


async def _now(value: int) -> int:
    """A future that is done before the loop turns again."""
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, value)
    awaited: int = await future
    return awaited


class Work:
    """A command that suspends in every way there is, and tells how far it came."""

    def __init__(self, runtime: LoopRuntime):
        self.runtime = runtime
        self.done: list[int] = []

    async def all(self) -> list[int]:
        self.done.append(await _later(0))
        await asyncio.sleep(0)
        self.done.append(1)
        self.done.append(await _now(2))
        self.done += await asyncio.gather(_later(3), _now(4))
        self.done.append(await asyncio.shield(_later(5)))
        self.done.append(await self.runtime.finish(_later(6)))
        await self.runtime.signal().wait(self.runtime.now() + 0.001)
        self.done.append(7)
        return self.done


async def _struck(caller: asyncio.Task[Any], work: Work, moment: int, times: int) -> None:
    """Cancel the caller once its work has come so far."""
    while len(work.done) < moment:  # noqa: ASYNC110  # turn by turn, to strike right there
        await asyncio.sleep(0)
    for _ in range(times):
        caller.cancel("enough")
        await asyncio.sleep(0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("times", [1, 3])
def test_cancelled_while_it_awaits(tell: Callable[[Story], None], times: int) -> None:
    async def story(runtime: LoopRuntime) -> None:
        for moment in range(STEPS):
            work = Work(runtime)
            task = asyncio.ensure_future(_finished(runtime, work))
            await asyncio.sleep(0)
            await _struck(task, work, moment, times)
            with pytest.raises(asyncio.CancelledError, match="enough"):
                await task
            assert task.cancelled()
            assert work.done == list(range(STEPS))

    tell(story)


async def _finished(runtime: LoopRuntime, work: Work) -> list[int]:
    return await runtime.finish(work.all())


@pytest.mark.usefixtures("patient")
def test_cancelled_the_moment_it_is_woken(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[int] = loop.create_future()
        told: list[int] = []

        async def work() -> None:
            told.append(await answer)
            told.append(await _later(2))

        task = asyncio.ensure_future(_await(runtime.finish(work())))
        await asyncio.sleep(0)
        answer.set_result(1)
        task.cancel()  # the wake-up is on its way, and comes as one
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told == [1, 2]

    tell(story)


async def _await(work: Any) -> Any:
    return await work


@pytest.mark.usefixtures("patient")
def test_cancelled_by_its_own_hand(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        told: list[int] = []

        async def work(value: int) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            told.append(await _later(value))

        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(_await(runtime.finish(work(1))))
        assert told == [1]

    tell(story)


def test_what_was_awaited_is_cancelled_by_somebody(tell: Callable[[Story], None]) -> None:
    """That is an answer like others: the work hears of it, and may go on."""

    async def story(runtime: LoopRuntime) -> None:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> str:
            try:
                await answer
            except asyncio.CancelledError:
                await _later(0)
                return "it was cancelled"
            return "it was not"

        task = asyncio.ensure_future(_await(runtime.finish(work())))
        await asyncio.sleep(0)
        answer.cancel()
        assert await task == "it was cancelled"

    tell(story)


@pytest.mark.usefixtures("patient")
def test_the_time_is_up_around_it(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        work = Work(runtime)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await runtime.finish(work.all())
        assert work.done == list(range(STEPS))
        work = Work(runtime)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_finished(runtime, work), 0.0005)
        assert work.done == list(range(STEPS))
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    tell(story)


@pytest.mark.usefixtures("patient")
def test_a_group_ends_it(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        work = Work(runtime)

        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError

        with suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(_finished(runtime, work))
                group.create_task(fail())
        assert work.done == list(range(STEPS))

    tell(story)


@pytest.mark.parametrize("healed", [False, True])
def test_a_group_inside_it_fails(tell: Callable[[Story], None], healed: bool) -> None:
    """It cancels the task it is in, and takes that back: the caller was never cancelled."""

    async def story(runtime: LoopRuntime) -> None:
        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError

        async def work() -> str:
            try:
                async with asyncio.TaskGroup() as group:
                    over = asyncio.Event()
                    group.create_task(fail()).add_done_callback(lambda _: over.set())
                    await over.wait()
            except ExceptionGroup:
                if not healed:
                    raise
            return "healed"

        with suppress(ExceptionGroup):
            assert await runtime.finish(work()) == "healed"
            assert healed
        await asyncio.sleep(0)

    tell(story)


@pytest.mark.usefixtures("patient")
def test_an_error_is_told_unless_it_was_cancelled(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        async def work() -> None:
            await _later(1)
            raise ValueError("lost")

        with pytest.raises(ValueError, match="lost"):
            await runtime.finish(work())
        task = asyncio.ensure_future(_await(runtime.finish(work())))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    tell(story)


@pytest.mark.usefixtures("patient")
def test_several_await_one_future(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        shared: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> int:
            return await shared

        tasks = [asyncio.ensure_future(_await(runtime.finish(work()))) for _ in range(3)]
        tasks.append(asyncio.ensure_future(work()))
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        assert not shared.done()
        shared.set_result(5)
        assert await asyncio.gather(*tasks[1:]) == [5, 5, 5]
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]

    tell(story)


def test_it_costs_no_task(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        async def work() -> set[asyncio.Task[Any]]:
            await _later(1)
            return asyncio.all_tasks()

        assert await runtime.finish(work()) == asyncio.all_tasks()

    tell(story)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "python tasks"])
def test_it_keeps_nothing(kind: str) -> None:
    """Frames and errors that know each other would keep the leases of an ended task (L11).

    (Tasks written in Python have such a cycle of their own.)
    """

    class Thing:
        pass

    async def story(runtime: LoopRuntime) -> None:
        things: list[weakref.ref[Thing]] = []

        async def work(*, healed: bool) -> None:
            thing = Thing()
            things.append(weakref.ref(thing))
            with suppress(ZeroDivisionError if healed else OSError):
                await _failing()
            await _later(1)

        for healed in (True, False):
            for cancelled in (True, False):
                task = asyncio.ensure_future(_await(runtime.finish(work(healed=healed))))
                await asyncio.sleep(0)
                if cancelled:
                    task.cancel()
                with suppress(asyncio.CancelledError, ZeroDivisionError):
                    await task
                del task
                await asyncio.sleep(0)  # the loop's own turn knew it
                assert things[-1]() is None  # at once, without the collector

    _tell(story, kind)


def _failing() -> asyncio.Future[None]:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, ZeroDivisionError())
    return future


def test_a_caller_that_is_closed_closes_it(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        ended: list[bool] = []

        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(True)

        caller = _await(runtime.finish(work()))
        caller.send(None)
        caller.close()
        assert ended == [True]

    tell(story)


class _Sender:
    unfinished: Any = None


def test_what_takes_too_long_is_left_and_finished_behind(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        for inner in (True, False):
            answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            done: list[int] = []

            async def work(
                answer: Any = answer, done: list[int] = done, inner: bool = inner
            ) -> None:
                waiting = _await(answer)
                done.append(await (runtime.finish(waiting) if inner else waiting))
                done.append(await _later(2))

            sender = _Sender()
            with pytest.raises(BackendUnavailable):
                await runtime.finish(work(), runtime.now() + 0.01, sender)
            assert done == []
            answer.set_result(1)
            await sender.unfinished
            assert done == [1, 2]

    tell(story)


def test_there_was_no_time_at_all(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        async def at_once() -> int:
            return 1

        assert await runtime.finish(at_once(), runtime.now() - 1) == 1
        sender = _Sender()
        with pytest.raises(BackendUnavailable):
            await runtime.finish(_later(1, 30.0), runtime.now() - 1, sender)
        sender.unfinished.cancel()

    tell(story)


def test_the_answer_comes_as_the_time_is_over(tell: Callable[[Story], None]) -> None:
    """Whatever of the two is first, the task goes on once, and the work runs to its end."""

    async def story(runtime: LoopRuntime) -> None:
        loop = asyncio.get_running_loop()
        for microseconds in range(0, 2000, 50):
            answer: asyncio.Future[int] = loop.create_future()
            loop.call_later(microseconds / 1e6, answer.set_result, microseconds)
            done: list[int] = []

            async def work(answer: Any = answer, done: list[int] = done) -> int:
                done.append(await answer)
                return done[0]

            sender = _Sender()
            try:
                assert await runtime.finish(work(), runtime.now() + 0.001, sender) == microseconds
            except BackendUnavailable:
                if sender.unfinished is not None:
                    await sender.unfinished
            await asyncio.sleep(0.001)
            assert done == [microseconds]

    tell(story)


def test_a_cancelled_caller_leaves_what_takes_long(tell: Callable[[Story], None]) -> None:
    async def story(runtime: LoopRuntime) -> None:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        sender, done = _Sender(), []

        async def work() -> None:
            done.append(await answer)

        task = asyncio.ensure_future(_await(runtime.finish(work(), sender=sender)))
        await asyncio.sleep(0)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        assert done == []
        answer.set_result(1)
        await sender.unfinished
        assert done == [1]

    tell(story)
