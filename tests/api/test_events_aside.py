"""Listeners and log handlers cost nobody's lease: what the keeper finds is told aside, in order."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core.values import Event
from locknut.runtimes import cpython

PATIENCE = 20.0


def _eventually(check: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up
        time.sleep(0.01)


class Slow:
    """Stays in the first loss that it is told of, until it is let go."""

    def __init__(self) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.thread = ""
        self.kinds: list[tuple[str, str]] = []

    def __call__(self, event: Event) -> None:
        self.kinds.append((event.kind, event.name))
        if event.kind == "lost":
            self.thread = threading.current_thread().name
            self.inside.set()
            assert self.go_on.wait(PATIENCE)


def test_a_slow_listener_keeps_no_lease_from_being_renewed() -> None:
    with locknut.connect("memory:") as locks:
        slow = Slow()
        locks.on_event(slow)
        kept = locks.lock("kept", ttl=1).acquire()
        assert kept is not None
        locks.lock("short", ttl=0.3, auto_renew=False).acquire()
        assert slow.inside.wait(PATIENCE)
        renewed_at = kept._hold.anchor
        _eventually(lambda: kept._hold.anchor > renewed_at + 1)
        assert kept.held
        assert slow.thread != "locknut-keeper"
        slow.go_on.set()


def test_no_thread_to_be_had_for_callbacks_costs_no_other_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The keeper goes on, and what is to be told is told when there is a thread again."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    told: list[str] = []
    with locknut.connect("memory:") as locks:
        kept = locks.lock("kept", ttl=1).acquire()
        assert kept is not None
        began_at = kept._hold.anchor
        _eventually(lambda: kept._hold.anchor > began_at)  # so the keeper runs
        with monkeypatch.context() as patch:
            patch.setattr(cpython.UnawaitedThread, "start", refuse)
            short = locks.lock("short", ttl=0.3, auto_renew=False).acquire()
            assert short is not None
            short.on_lost(lambda lease: told.append(lease.name))
            _eventually(lambda: short._ended is locknut.State.LOST)
            renewed_at = kept._hold.anchor
            _eventually(lambda: kept._hold.anchor > renewed_at + 1)
        assert kept.held
        emitted(locks._client)
    assert told == ["short"]


def test_events_are_told_in_order() -> None:
    with locknut.connect("memory:") as locks:
        slow = Slow()
        locks.on_event(slow)
        locks.lock("short", ttl=0.3, auto_renew=False).acquire()
        assert slow.inside.wait(PATIENCE)
        for name in "abc":
            with locks.lock(name):
                pass
        slow.go_on.set()
        _eventually(lambda: len(slow.kinds) == 8)
        told = [("granted", "short"), ("lost", "short")]
        assert slow.kinds == told + [(kind, n) for n in "abc" for kind in ("granted", "released")]
        with locks.lock("d"):
            assert slow.kinds[-1] == ("granted", "d")  # here and now again


def test_a_slow_log_handler_either() -> None:
    inside, go_on, threads = threading.Event(), threading.Event(), []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            threads.append(threading.current_thread().name)
            inside.set()
            go_on.wait(PATIENCE)

    handler = Handler(logging.ERROR)
    logging.getLogger("locknut").addHandler(handler)
    try:
        with locknut.connect("memory:") as locks:
            kept = locks.lock("kept", ttl=1).acquire()
            assert kept is not None
            locks.lock("short", ttl=0.3, auto_renew=False).acquire()
            assert inside.wait(PATIENCE)
            renewed_at = kept._hold.anchor
            _eventually(lambda: kept._hold.anchor > renewed_at + 1)
            go_on.set()
    finally:
        logging.getLogger("locknut").removeHandler(handler)
    assert threads == ["locknut-callbacks"]


def test_on_a_loop_they_are_told_there() -> None:
    async def story() -> None:
        async with aio.connect("memory:") as locks:
            told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

            def hear(event: Event) -> None:
                if event.kind == "lost":
                    told.set_result(threading.current_thread().name)

            locks.on_event(hear)
            await locks.lock("short", ttl=0.3, auto_renew=False).acquire()
            assert await asyncio.wait_for(told, PATIENCE) == threading.current_thread().name

    asyncio.run(story())


@pytest.mark.redis
@pytest.mark.faults
class TestAtRisk:
    """A server that hangs: the risk of a short ttl is told before the loss, and both in time."""

    def test_it_is_told(self, caplog: pytest.LogCaptureFixture) -> None:
        from tests.servers.redis import RedisServer

        with RedisServer() as server, locknut.connect(server.url) as locks:
            news: list[tuple[str, float]] = []
            locks.on_event(lambda event: news.append((event.kind, time.monotonic())))
            lease = locks.lock("x", ttl=2).acquire()
            assert lease is not None
            server.stop()
            began = time.monotonic()
            with caplog.at_level(logging.WARNING, logger="locknut"):
                assert lease.lost.wait(PATIENCE)
                _eventually(lambda: news[-1][0] == "lost")
            server.cont()
        kinds = [kind for kind, _ in news]
        assert kinds == ["granted", "at_risk", "lost"]
        assert news[1][1] < news[2][1] - 0.2
        assert news[2][1] - began < 2.5  # not when the command is given up at last
        assert [record.levelname for record in caplog.records][:2] == ["WARNING", "ERROR"]

    def test_it_is_told_on_a_loop(self) -> None:
        from tests.servers.redis import RedisServer

        async def story(server: RedisServer) -> list[str]:
            async with aio.connect(server.url) as locks:
                news: list[str] = []
                locks.on_event(lambda event: news.append(event.kind))
                lease = await locks.lock("x", ttl=2).acquire()
                assert lease is not None
                server.stop()
                assert await lease.lost.wait(PATIENCE)
                async with asyncio.timeout(PATIENCE):
                    while news[-1] != "lost":  # noqa: ASYNC110  # it is on its way to the loop
                        await asyncio.sleep(0.01)
                server.cont()
            return news

        with RedisServer() as server:
            assert asyncio.run(story(server)) == ["granted", "at_risk", "lost"]


def test_a_client_that_fakes_replace_while_an_event_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As at the end of a test that has fakes: what was begun is ended where it was begun."""
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with locknut.connect("memory:exchanged") as locks:
        client: Any = locks._client
        before = vars(client)

        def exchange(_: Event) -> None:
            client.__dict__ = {**before, "_not_emitted": deque()}

        locks.on_event(exchange)
        client.emit_event(Event("lost", "x", "memory"), aside=True)
        emitted(client)
    assert not failed
    assert not before["_not_emitted"]


def test_a_client_that_fakes_replace_before_an_event_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with locknut.connect("memory:exchanged-before") as locks:
        client: Any = locks._client
        before, go = vars(client), threading.Event()
        heard: list[str] = []
        locks.on_event(lambda event: heard.append(event.kind))
        client.runtime.aside(lambda: go.wait(60))
        client.emit_event(Event("lost", "x", "memory"), aside=True)
        client.__dict__ = {**before, "_not_emitted": deque()}
        go.set()
        emitted(client)
    assert heard == ["lost"]
    assert not failed
    assert not before["_not_emitted"]


def emitted(client: Any) -> None:
    """Wait until the events that wait for their turn have been emitted."""
    ended = threading.Event()
    client.runtime.aside(ended.set)
    assert ended.wait(60)


def test_an_event_that_was_lost_with_its_loop_comes_before_the_next() -> None:
    """It stayed at the head of the queue, so that every later event was told one too late."""
    heard: list[str] = []

    async def begin() -> aio.Locks:
        locks = aio.connect("memory:lost-with-its-loop")
        locks.on_event(lambda event: heard.append(event.name))
        await locks.ping()  # from now on it belongs to this loop
        return locks

    loop = asyncio.new_event_loop()
    client: Any = loop.run_until_complete(begin())._client
    client.emit_event(Event("lost", "first", "memory"), aside=True)  # the loop never comes to it
    loop.close()
    for name in ("second", "third"):
        client.emit_event(Event("lost", name, "memory"), aside=True)
    emitted(client)
    assert heard == ["first", "second", "third"]
    assert not client._not_emitted


def test_what_comes_while_the_loop_closes_is_told_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []

    async def begin() -> aio.Locks:
        locks = aio.connect("memory:while-it-closes")
        locks.on_event(lambda event: heard.append(event.name))
        await locks.ping()
        return locks

    loop = asyncio.new_event_loop()
    client: Any = loop.run_until_complete(begin())._client
    loop.close()
    monkeypatch.setattr(loop, "is_closed", lambda: False)  # as a moment ago
    client.emit_event(Event("lost", "x", "memory"), aside=True)
    emitted(client)
    assert heard == ["x"]
