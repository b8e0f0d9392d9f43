"""What servers and connections do to a lock: lost answers, restarts, kills, wrong keys."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core.values import Busy, Granted, Renewal
from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendError, BackendUnavailable, LeaseLost
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.redis.conftest import PATIENCE, claim, engine, eventually, somebody_waits
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]


class Losses:
    """The next answers are read and thrown away with their connection: applied, not answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        sent, received = Connection.send, Stream.buffer_updated

        def lose(connection: Connection, packed: bytes) -> Any:
            reply = sent(connection, packed)
            if self.left:
                self.left -= 1
                raise ConnectionResetError("lost on the way")
            return reply

        def drop(stream: Stream, nbytes: int) -> None:
            if self.left:
                self.left -= 1
                stream.abort(ConnectionResetError("lost on the way"))
            else:
                received(stream, nbytes)

        monkeypatch.setattr(Connection, "send", lose)
        monkeypatch.setattr(Stream, "buffer_updated", drop)


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> Losses:
    return Losses(monkeypatch)


def test_answers_lost_after_acquire_and_release(server: RedisServer, losses: Losses) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        with locks.lock("warm"):
            pass
        losses.left = 1
        with locks.lock("x") as lease:
            info = locks.info("x")
            assert [each.fence for each in info.holders] == [lease.fence]
            assert lease._hold.outcome_unknown
            losses.left = 1
        assert not locks.info("x").locked
        with locks.lock("x", timeout=5) as later:
            assert later.fence > lease.fence


def test_answers_lost_on_a_loop(server: RedisServer, losses: Losses) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            async with locks.lock("warm"):
                pass
            losses.left = 1
            async with locks.lock("x") as lease:
                info = await locks.info("x")
                assert [each.fence for each in info.holders] == [lease.fence]
                losses.left = 1
            assert not (await locks.info("x")).locked

    asyncio.run(story())


def test_a_doubtful_release_leaves_a_tombstone_that_runs_out(server: RedisServer) -> None:
    port, late = engine(server).blocking(ThreadRuntime()), claim(ttl=20.0)
    assert not run(port.release(late, outcome_unknown=True))
    assert isinstance(run(port.attempt(late, 0.0)), Busy)
    left = server.ask("PTTL", "t:{x}:alive")
    assert isinstance(left, int)
    assert 60_000 < left <= 122_000  # as long as a command may be on its way, whatever the ttl
    server.ask("ZADD", "t:{x}:alive", 1, f"-{late.id}")  # its time is over
    assert isinstance(run(port.attempt(late, 0.0)), Granted)
    assert run(port.release(late))
    run(port.close())


def test_a_flushed_script_is_loaded_again(server: RedisServer) -> None:
    port, mine, other = engine(server).blocking(ThreadRuntime()), claim(), claim("y")
    for step in (
        lambda: run(port.attempt(mine, 0.0)),
        lambda: run(port.attempt(other, 0.0)),
        lambda: run(port.renew([mine, other])),
        lambda: run(port.inspect(mine.key)),
        lambda: run(port.release(mine)) and run(port.release(other)),
    ):
        server.script_flush()
        assert step()
    run(port.close())


def test_a_flushed_script_on_a_loop(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            for _ in range(2):
                await asyncio.to_thread(server.script_flush)
                async with locks.lock("x") as lease:
                    await asyncio.to_thread(server.script_flush)
                    await lease.renew()

    asyncio.run(story())


def test_after_flushall_the_fence_still_grows(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        server.flushall()
        with pytest.raises(LeaseLost):
            lease.release()
        with locks.lock("x", timeout=1) as later:
            assert later.fence > lease.fence


def test_the_number_of_a_hold_stays_as_long_as_the_hold(server: RedisServer) -> None:
    """S11: a renewal moves it on, and who asks again or looks finds the same number."""
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=30).acquire()
        assert lease is not None
        server.ask("PEXPIRE", "t:{x}:fence", 20_000)
        lease.renew()
        left = server.ask("PTTL", "t:{x}:fence")
        assert isinstance(left, int)
        assert left > 30_000
        assert [holder.fence for holder in locks.info("x").holders] == [lease.fence]
        lease.release()


@pytest.mark.parametrize("part", ["", ":fence", ":alive", ":line", ":info"])
def test_a_key_of_the_wrong_type_is_named_and_nothing_stays(server: RedisServer, part: str) -> None:
    server.ask("SADD", f"t:{{x}}{part}", "what is this")
    with locknut.connect(server.url, namespace="t") as locks:
        if part in {"", ":fence", ":alive"}:
            with pytest.raises(BackendError, match="not a lock's") as caught:
                locks.lock("x").acquire(timeout=0)
            assert not isinstance(caught.value, BackendUnavailable)
            assert caught.value.key == "x"
        with locks.lock("y", timeout=0):
            pass
    server.ask("DEL", f"t:{{x}}{part}")


def test_a_key_that_was_there_before_us_is_somebodys(server: RedisServer) -> None:
    server.ask("SET", "t:{x}", "set by hand")
    with locknut.connect(server.url, namespace="t") as locks:
        assert locks.lock("x").acquire(timeout=0.05) is None
        assert locks.info("x").locked
        assert [each.name for each in locks.list()] == ["x"]
        assert locks.force_release("x")
        with locks.lock("x", timeout=0):
            pass


def test_a_hold_deleted_by_hand_is_lost(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=3).acquire()
        assert lease is not None
        server.ask("DEL", "t:{x}")
        assert lease.lost.wait(PATIENCE)
        assert lease.reason == "taken"


@pytest.mark.slow
def test_cut_connections_are_made_again(server: RedisServer) -> None:
    with (
        locknut.connect(server.url, namespace="t") as one,
        locknut.connect(server.url, namespace="t") as two,
    ):
        with one.lock("x"), two.lock("y"):
            server.client_kill()
        got = threading.Event()

        def wait() -> None:
            with two.lock("x"):
                got.set()

        lease = one.lock("x").acquire()
        assert lease is not None
        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: one.info("x").waiters, "nobody waits")
        server.client_kill()
        lease.release()
        assert got.wait(PATIENCE)
        waiter.join()


def test_cut_connections_on_a_loop(server: RedisServer) -> None:
    async def story() -> None:
        async with (
            aio.connect(server.url, namespace="t") as one,
            aio.connect(server.url, namespace="t") as two,
        ):
            lease = await one.lock("x").acquire()
            assert lease is not None
            waiter = asyncio.create_task(two.lock("x").acquire())
            await somebody_waits(one)
            await asyncio.to_thread(server.client_kill)
            await lease.release()
            async with asyncio.timeout(PATIENCE):
                got = await waiter
            assert got is not None
            assert got.fence > lease.fence
            await got.release()

    asyncio.run(story())


@pytest.mark.parametrize("keep_data", [True, False])
def test_a_restarted_server(keep_data: bool) -> None:
    with RedisServer() as server, locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        server.restart(keep_data=keep_data)
        if keep_data:
            lease.renew()
            lease.release()
        else:
            with pytest.raises(LeaseLost):
                lease.release()
        with locks.lock("x", timeout=5) as later:
            assert later.fence > lease.fence


def test_a_stopped_server_is_no_answer_and_nothing_is_believed() -> None:
    with RedisServer() as server:
        port, mine = engine_with(server, "socket_timeout=1").blocking(ThreadRuntime()), claim()
        server.ask("PING")
        server.stop()
        with pytest.raises(BackendUnavailable, match=r"nothing within 1 s"):
            run(port.attempt(mine, 0.0))
        server.cont()
        run(port.release(mine, outcome_unknown=True))
        eventually(lambda: not run(port.inspect(mine.key)), "the late attempt got in")
        assert run(port.renew([mine])) == [Renewal.LOST]
        run(port.close())


def test_a_stopped_server_on_a_loop() -> None:
    async def story(server: RedisServer) -> None:
        port, mine = engine_with(server, "socket_timeout=1").asyncio(LoopRuntime()), claim()
        assert await port.inspect(mine.key) == []
        server.stop()
        with pytest.raises(BackendUnavailable, match=r"nothing within 1 s"):
            await port.attempt(mine, 0.0)
        server.cont()
        await port.release(mine, outcome_unknown=True)
        assert await port.inspect(mine.key) == []
        await port.close()

    with RedisServer() as server:
        asyncio.run(story(server))


def engine_with(server: RedisServer, options: str) -> Any:
    return open_engine(f"{server.url}?{options}")[0]


def test_nobody_at_home(free_port: int) -> None:
    url = f"redis://127.0.0.1:{free_port}"
    with locknut.connect(url) as locks, pytest.raises(BackendUnavailable, match="no answer from"):
        locks.info("x")
