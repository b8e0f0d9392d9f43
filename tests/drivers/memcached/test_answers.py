"""Answers that are cut, refused or nobody's any more: none is taken for that to another command."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from locknut.drivers.memcached.aio import Link, Stream
from locknut.drivers.memcached.replies import Replies, Reply
from locknut.drivers.memcached.server_clocks import ServerClocks
from locknut.drivers.memcached.settings import read
from locknut.drivers.memcached.sync import Pool
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.threads import run
from locknut.testing.proxy import FaultProxy
from locknut.urls import parse
from tests.servers.memcached import MemcachedServer
from tests.servers.processes import until

GREETING = {
    b"version": b"VERSION 1.6.18\r\n",
    b"stats": b"STAT pid 7\r\nSTAT uptime 100\r\nSTAT time 1700000100\r\nEND\r\n",
    b"stats settings": b"STAT cas_enabled yes\r\nEND\r\n",
}
INSTANCE = (1_700_000_000, 7)
DONE = b"HD c12345\r\n"
Way = Callable[..., Any]


class Scripted:
    """A server that says what is hard to make a real one say, and then hangs up."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"memcached://127.0.0.1:{self._listening.getsockname()[1]}"
        self.answer = b""
        self.greeting = dict(GREETING)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            wire, _ = self._listening.accept()
            with wire, wire.makefile("rb") as lines:
                while (asked := lines.readline().strip()) in self.greeting:
                    wire.sendall(self.greeting[asked])
                if asked == b"end":
                    return
                wire.sendall(self.answer)

    def close(self) -> None:
        with socket.create_connection(self._listening.getsockname()) as wire:
            wire.sendall(b"end\r\n")
        self._thread.join()
        self._listening.close()


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.close()


def by_thread(url: str, work: Callable[[Any], Any]) -> Any:
    pool = Pool(read(parse(url)), ServerClocks())
    try:
        found = work(pool)
        return found if isinstance(found, int) else run(found)
    finally:
        run(pool.close())


def on_loop(url: str, work: Callable[[Any], Any]) -> Any:
    async def story() -> Any:
        link = Link(read(parse(url)), ServerClocks())
        try:
            return await work(link)
        finally:
            await link.close()

    return asyncio.run(story())


@pytest.fixture(params=[by_thread, on_loop])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


WHOLE = (
    b"HD c7\r\nVA 4 c8 t30 W\r\nfree\r\nVA 9 c9\r\nHD c1\r\nEN\r\nEX c4\r\n"
    b"key=a%20b exp=-1\nEND\r\nVA 0 c10\r\n\r\nSERVER_ERROR out of memory\r\n"
)
"""The second value looks like two answers."""
TAKEN_APART = [
    Reply(b"HD", [b"c7"]),
    Reply(b"VA", [b"c8", b"t30", b"W"], b"free"),
    Reply(b"VA", [b"c9"], b"HD c1\r\nEN"),
    Reply(b"EX", [b"c4"]),
    Reply(b"key=a%20b", [b"exp=-1"]),
    Reply(b"END", []),
    Reply(b"VA", [b"c10"], b""),
    Reply(b"SERVER_ERROR", [b"out", b"of", b"memory"]),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(WHOLE)])
def test_answers_may_come_in_any_pieces(size: int) -> None:
    replies, found = Replies(), []
    for at in range(0, len(WHOLE), size):
        replies.feed(WHOLE[at : at + size])
        while (reply := replies.next()) is not None:
            found.append(reply)
    assert found == TAKEN_APART


def test_an_answer_that_is_cut_at_any_byte_is_none(scripted: Scripted, way: Way) -> None:
    for size in range(len(DONE)):
        scripted.answer = DONE[:size]
        with pytest.raises(BackendUnavailable):
            way(scripted.url, lambda to: to.change(b"ms\r\n", INSTANCE))
    scripted.answer = DONE
    assert way(scripted.url, lambda to: to.change(b"ms\r\n", INSTANCE)) == 12345


@pytest.mark.parametrize("code", [b"EX", b"NF", b"NS"])
def test_what_was_not_changed_has_no_id(scripted: Scripted, way: Way, code: bytes) -> None:
    """Some servers tell the id of what stands there instead."""
    scripted.answer = code + b" c12345\r\n"
    assert way(scripted.url, lambda to: to.change(b"ms\r\n", INSTANCE)) == 0


def test_a_look_that_is_cut_at_any_byte_is_none(scripted: Scripted, way: Way) -> None:
    found = b"VA 4 c8 t30\r\nfree\r\n"
    for size in range(len(found)):
        scripted.answer = found[:size]
        with pytest.raises(BackendUnavailable):
            way(scripted.url, lambda to: to.ask([b"mg\r\n"]))
    scripted.answer = found
    (reply,), _ = way(scripted.url, lambda to: to.ask([b"mg\r\n"]))
    assert (reply.data, reply.cas) == (b"free", 8)


@pytest.mark.parametrize("answer", [b"\0" * 70_000, b"VA many\r\n", b"HD cx\r\n"])
def test_what_is_no_memcached_is_no_answer(scripted: Scripted, way: Way, answer: bytes) -> None:
    scripted.answer = answer
    with pytest.raises(BackendUnavailable):
        way(scripted.url, lambda to: to.change(b"ms\r\n", INSTANCE))


def test_what_greets_like_no_memcached_is_no_answer(scripted: Scripted, way: Way) -> None:
    """On a loop it came out as a bare ValueError."""
    scripted.greeting[b"stats"] = b"STAT evictions many\r\nEND\r\n"
    with pytest.raises(BackendUnavailable):
        way(scripted.url, lambda to: to.ask([b"mg\r\n"]))


@pytest.mark.memcached
@pytest.mark.slow
def test_a_refusal_whose_caller_has_gone_is_not_the_start_of_another_answer(
    memcached_server: MemcachedServer,
) -> None:
    """A real server answers this command by two lines: the second one was the next caller's."""

    async def story() -> None:
        link = Link(read(parse(memcached_server.url)), ServerClocks())
        _, greeted = await link.ask([b"mn\r\n"])
        asked: Any = link.change(b"ms refused many T9 c\r\nvalue\r\n", greeted.instance)
        asked.cancel()
        with pytest.raises(BackendUnavailable, match="it refused a command"):
            await link.ask([b"mn\r\n"])  # sent behind it, so nobody knows what answers it
        (reply,), _ = await link.ask([b"mn\r\n"])
        assert reply.code == b"MN"
        await link.close()

    asyncio.run(story())


@pytest.mark.memcached
def test_one_refusal_among_several_is_that_of_all(
    memcached_server: MemcachedServer, way: Way
) -> None:
    commands = [b"mn\r\n", b"ms refused many T9 c\r\n", b"mn\r\n"]
    with pytest.raises(BackendError, match="CLIENT_ERROR") as raised:
        way(memcached_server.url, lambda to: to.ask(commands))
    assert not isinstance(raised.value, BackendUnavailable), "it was an answer"


@pytest.mark.memcached
def test_nobody_waits_for_the_end_of_a_list(memcached_server: MemcachedServer) -> None:
    """It may be that of millions of items. Its connection is its own, and is left after it."""

    async def story(proxy: FaultProxy) -> None:
        link = Link(read(parse(f"memcached://127.0.0.1:{proxy.port}")), ServerClocks())
        await link.ask([b"mn\r\n"])
        (way,) = proxy.connections
        proxy.replies.hold()
        way.replies.forward()
        listing = asyncio.create_task(link.ask_list(b"stats\r\n"))
        await asyncio.to_thread(proxy.wait_for_connections, 2)
        (reply,), _ = await link.ask([b"mn\r\n"])
        assert reply.code == b"MN"
        assert not listing.done()
        proxy.replies.forward()
        assert (await listing)[-1].code == b"END"
        await asyncio.to_thread(until, lambda: len(proxy.connections) == 1, "it was left")
        await link.close()

    with FaultProxy((memcached_server.host, memcached_server.port)) as proxy:
        asyncio.run(story(proxy))


class Nowhere(asyncio.Transport):
    """Takes what is written, and that is all."""

    def write(self, data: object) -> None: ...

    def abort(self) -> None: ...


def test_a_list_takes_its_time_as_long_as_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for threads: the limit is for each part, and not for a list of any length."""
    passed = [0.0]
    monkeypatch.setattr("locknut.drivers.memcached.aio.monotonic", lambda: passed[0])

    async def story(made: socket.socket) -> None:
        def is_open(seconds: float) -> bool:
            passed[0] = seconds
            stream._look()
            return not stream.closed

        stream = Stream(read(parse("memcached://localhost")), asyncio.get_running_loop())
        stream.connection_made(Nowhere({"socket": made}))
        listing = stream.send(b"stats\r\n", 0)
        for seconds in (1.5, 3.0, 4.5):
            assert is_open(seconds)
            stream.get_buffer(0)[:9] = b"STAT a 1\n"
            stream.buffer_updated(9)
        assert is_open(6.4)
        assert not listing.done()
        assert not is_open(6.6)

    with socket.socket() as made:
        asyncio.run(story(made))
