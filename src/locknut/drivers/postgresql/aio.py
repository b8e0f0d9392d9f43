"""The asyncio colour: a task waits for a session, and for its answer, while the loop goes on.

Whatever becomes of the task, the exchange goes on to its end: it awaits futures that nobody else
knows, and the core carries a command to its end behind a cancelled caller.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from locknut.drivers.postgresql.exchange import READ, WRITE, Steps, T
from locknut.drivers.postgresql.server_session import Session
from locknut.drivers.postgresql.session_pool import SessionPool, SessionWish
from locknut.runtimes.clock import now


class LoopLine:
    """For tasks."""

    def __init__(self, pool: SessionPool):
        self.pool = pool

    def until(self, limit: float) -> float:
        return now() + limit

    async def session(self, until: float) -> Session:
        wish = SessionWish()
        try:
            self.pool.take(wish)
            if wish.session is None:
                await _over(wish, until)
            return wish.result()
        except BaseException:
            self.pool.give_up(wish)
            raise

    async def drive(self, session: Session, steps: Steps[T], until: float) -> T:
        loop, descriptor = asyncio.get_running_loop(), session.fd
        ready = _Ready(loop)
        timer = loop.call_later(max(0.0, until - now()), ready.late)
        try:
            wanted = next(steps)
            loop.add_reader(descriptor, ready.to_read)
            while True:
                if wanted & WRITE:
                    loop.add_writer(descriptor, ready.to_write)
                what = await ready.future
                if wanted & WRITE:
                    loop.remove_writer(descriptor)
                if not what:
                    raise TimeoutError("the server did not answer in time")
                ready.future = loop.create_future()
                wanted = steps.send(what)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            timer.cancel()
            with suppress(RuntimeError):  # the loop was closed
                loop.remove_reader(descriptor)
                loop.remove_writer(descriptor)

    def inside(self) -> bool:
        return self.pool.guard.inside()

    def forked(self) -> None:
        self.pool.forked()


async def _over(wish: SessionWish, until: float) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[int] = loop.create_future()

    def ring() -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(_set, ready, READ)

    wish.ring = ring
    if wish.is_over():
        return
    timer = loop.call_later(max(0.0, until - now()), _set, ready, 0)
    try:
        await ready
    finally:
        timer.cancel()
    if not wish.is_over():
        raise TimeoutError("no session with the server was free in time")


def _set(future: asyncio.Future[int], what: int) -> None:
    if not future.done():
        future.set_result(what)


class _Ready:
    """What a session is ready for; 0 if the time is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.future: asyncio.Future[int] = loop.create_future()

    def to_read(self) -> None:
        _set(self.future, READ)

    def to_write(self) -> None:
        _set(self.future, WRITE)

    def late(self) -> None:
        _set(self.future, 0)
