"""The two hand-written transports, when a caller is interrupted or a connection is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from hiredis import ReplyError

from locknut import aio
from locknut.core import keeper
from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.drivers.redis.links import LoopDial
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.settings import read
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendUnavailable
from locknut.runtimes.clock import now
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import parse
from tests.backends.redis.conftest import PATIENCE, claim, engine, eventually
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
PING = wire.pack(b"PING")


def test_an_interrupted_command_takes_its_connection_with_it(server: RedisServer) -> None:
    """Ctrl-C between sending and reading: the answer must never be the next command's."""
    pool = Pool(FixedEndpoint(read(parse(server.url))))
    assert pool.send(wire.pack(b"ECHO", b"first")) == b"first"

    def interrupted(_size: int, _flags: int = 0) -> bytes:
        raise KeyboardInterrupt

    pool._idle[0]._recv = interrupted
    with pytest.raises(KeyboardInterrupt) as caught:
        pool.send(wire.pack(b"ECHO", b"second"))
    assert caught.value.__cause__ is None
    assert pool.send(wire.pack(b"ECHO", b"third")) == b"third"
    pool.close()


def test_a_closed_pool_keeps_nothing(server: RedisServer) -> None:
    pool = Pool(FixedEndpoint(read(parse(server.url))))
    pool.close()
    assert pool.send(PING) == b"PONG"
    assert not pool._idle


def test_a_command_on_a_lost_stream_fails_at_once() -> None:
    async def story() -> None:
        settings = read(parse("redis://nowhere"))
        stream = Stream(settings, asyncio.get_running_loop(), lambda *_: None, lambda _: None)
        with pytest.raises(BackendUnavailable):
            await asyncio.wait_for(stream.send(PING), 1)

    asyncio.run(story())


def test_a_cancelled_caller_does_not_disturb_anothers_answer(server: RedisServer) -> None:
    async def story() -> None:
        port: Any = engine(server).asyncio(LoopRuntime())
        await port.inspect("t:x")
        stream: Any = port._server.link.stream
        first = stream.send(wire.pack(b"ECHO", b"first"))
        second = stream.send(wire.pack(b"ECHO", b"second"))
        first.cancel()
        assert await second == b"second"
        await port.close()

    asyncio.run(story())


def test_a_waiter_whose_connection_was_cut_reads_another_inbox(server: RedisServer) -> None:
    """L5: the server may still take the old connection for a reader, which would eat the grant."""
    port = engine(server).blocking(ThreadRuntime())
    holder, waiter = claim(), claim()
    run(port.attempt(holder, 0.0))
    run(port.attempt(waiter, 0.0))
    with port.watch(waiter, ThreadRuntime().signal) as inbox:
        sleeper = threading.Thread(target=lambda: run(inbox.wait(now() + 1.0)))
        sleeper.start()
        eventually(lambda: "blocked_clients:0" not in told(server), "nobody sleeps")
        server.client_kill()
        sleeper.join()
        run(port.attempt(waiter, 0.0))
        assert server.ask("HGET", "t:{x}:info", waiter.id).split()[3] == b"l1"  # type: ignore[union-attr]
        assert run(port.release(holder))
        assert server.ask("EXISTS", f"t:{{x}}:inbox:{waiter.id[:16]}1") == 1
        assert run(inbox.wait(now() + 5.0))
    run(port.release(waiter))
    run(port.close())


def told(server: RedisServer) -> str:
    return "\n".join(f"{name}:{value}" for name, value in server.info("clients").items())


@pytest.mark.parametrize("refused", [False, True])
def test_leaving_a_channel_never_takes_the_answer_of_another(refused: bool) -> None:
    """A refusal to leave is an answer, though leaving has none: the next command keeps its own."""
    rules = f"~* &* +@all {'-sunsubscribe' if refused else ''}"

    async def story(url: str) -> None:
        stream = await LoopDial(lambda *_: None, lambda _: None).open(read(parse(url)))
        for each in range(3):
            channel = b"c%d" % each
            await stream.send(wire.pack(b"SSUBSCRIBE", channel))
            before = stream.send(wire.pack(b"ECHO", b"before"))
            stream.leave(b"SUNSUBSCRIBE", channel)
            after = [stream.send(wire.pack(b"ECHO", b"%d" % at)) for at in range(3)]
            assert await before == b"before"
            assert await asyncio.gather(*after) == [b"0", b"1", b"2"]
        wrong = await stream.send(wire.pack(b"NONSENSE"))
        assert isinstance(wrong, ReplyError)  # not taken for such a refusal
        stream.close()
        await stream.ended

    with RedisServer(user="locks", password="s3cret", rules=rules) as server:
        asyncio.run(asyncio.wait_for(story(server.url), 30))


@pytest.mark.parametrize("options", ["", "?layout=redisson"])
@pytest.mark.slow
def test_a_locks_that_is_dropped_on_a_loop_leaves_no_connection(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    """The loop would keep it for as long as it lives. Whoever has a lock of it has all of it."""
    monkeypatch.setattr(keeper, "IDLE", 0.05)  # as long as the keeper is there, so is the rest

    def connections() -> int:
        told = server.ask("CLIENT", "LIST")
        assert isinstance(told, bytes)
        return len(told.splitlines())

    async def gone(kept: list[aio.Lock], before: int) -> None:
        kept.clear()
        async with asyncio.timeout(PATIENCE):
            while connections() > before:
                gc.collect()
                await asyncio.sleep(0.01)

    async def story() -> None:
        before = connections()
        lock = aio.connect(server.url + options, namespace="t").lock("x")
        async with lock:
            pass
        gc.collect()
        async with lock:
            pass
        assert connections() > before
        kept = [lock]
        del lock
        with pytest.warns(ResourceWarning, match="without `await locks.close"):
            await gone(kept, before)

    asyncio.run(story())
    server.flushall()
