"""A resolver may be silent for long: nobody waits for it longer than it can, and it is asked once.

Before, each connection asked it anew, on the thread of whoever wanted the connection: a call with a
timeout of a second took ten, and so did a keeper that had to tell its holders of a loss.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from locknut import aio
from locknut.errors import BackendUnavailable
from locknut.runtimes import cpython, host_names, loop_connections
from tests.forks.child import in_child
from tests.servers.resolver import PATIENCE, Resolver, in_its_place

NAME = "node.example"


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    with in_its_place(monkeypatch, NAME) as resolver:
        yield resolver


def test_who_has_no_time_left_goes_and_the_next_waits_for_the_same_look_up(
    resolver: Resolver,
) -> None:
    for _ in range(3):
        with pytest.raises(TimeoutError, match=NAME):
            host_names.addresses(NAME, 1, 0.05)
    assert resolver.asked == 1
    resolver.answers.set()
    assert [each[4] for each in host_names.addresses(NAME, 1, PATIENCE)] == [("127.0.0.1", 1)]


def test_who_asks_later_asks_anew(resolver: Resolver) -> None:
    """A name may move."""
    resolver.answers.set()
    for number in range(1, 4):
        host_names.addresses(NAME, number, PATIENCE)
        assert resolver.asked == number


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "nobody knows it"), UnicodeError("label too long")]
)
def test_what_it_answers_is_told_to_each_who_waits(resolver: Resolver, error: Exception) -> None:
    resolver.found, resolver.error = None, error
    resolver.answers.set()
    for _ in range(2):
        with pytest.raises(type(error), match=str(error.args[-1])) as raised:
            host_names.addresses(NAME, 1, PATIENCE)
        assert raised.value.__cause__ is error


def test_that_nobody_knows_a_name_is_remembered_for_a_moment(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who kept asking paid for the whole look-up each time, ten seconds where no server of names
    answered.
    """
    clock = [1000.0]
    monkeypatch.setattr(host_names, "now", lambda: clock[0])
    resolver.found = None
    resolver.answers.set()
    for port in (1, 1, 2):
        with pytest.raises(socket.gaierror, match="nobody knows it"):
            host_names.addresses(NAME, port, PATIENCE)
    assert resolver.asked == 1
    resolver.found = "127.0.0.1"
    clock[0] += host_names.SHORTLY
    assert host_names.addresses(NAME, 1, PATIENCE)
    resolver.found = None
    with pytest.raises(socket.gaierror):
        host_names.addresses(NAME, 1, PATIENCE)
    assert resolver.asked == 3, "nothing was remembered of a name that was found since"


def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_names.LookUp, "start", None)
    for host in ("127.0.0.1", "::1"):
        assert host_names.addresses(host, 1, 0.0)[0][4][:2] == (host, 1)
    assert not host_names.is_address("a\0b")


def test_a_forked_child_asks_anew(resolver: Resolver) -> None:
    """The thread that asks for its parent is not there."""
    with pytest.raises(TimeoutError):
        host_names.addresses(NAME, 1, 0.05)

    def child() -> None:
        resolver.answers.set()
        assert host_names.addresses(NAME, 1, PATIENCE)

    in_child(child)
    assert not resolver.answers.is_set(), "the child has its own"


def test_without_a_thread_it_is_looked_up_all_the_same(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cpython.UnawaitedThread, "start", refuse)
    resolver.answers.set()
    assert host_names.addresses(NAME, 1, 0.0)


class Counting(ThreadPoolExecutor):
    """The threads of a program's loop: how often they were asked for."""

    used = 0

    def submit(self, *work: Any, **more: Any) -> Any:
        self.used += 1
        return super().submit(*work, **more)


class HangsUp(asyncio.Protocol):
    """Once it is connected."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@pytest.mark.parametrize("engine", ["redis", "memcached", "etcd"])
def test_on_a_loop_the_programs_own_threads_are_left_alone(resolver: Resolver, engine: str) -> None:
    """There are six of them on a machine with two cores. While a resolver was silent, each try to
    connect took one for as long as that: `asyncio.to_thread` of the program stood still.
    """
    threads = Counting()

    async def story() -> None:
        asyncio.get_running_loop().set_default_executor(threads)
        async with aio.connect(f"{engine}://{NAME}:1?socket_connect_timeout=50ms") as locks:
            for _ in range(3):
                with pytest.raises(BackendUnavailable):
                    await locks.lock("x").acquire(timeout=0.2)

    asyncio.run(story())
    assert (threads.used, resolver.asked) == (0, 1)


def test_on_a_loop_all_who_ask_wait_for_one_look_up(resolver: Resolver) -> None:
    async def story() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop_connections.addresses(NAME, 1), 0.05)
        asked = [asyncio.ensure_future(loop_connections.addresses(NAME, 1)) for _ in range(3)]
        await asyncio.sleep(0)
        resolver.answers.set()
        for each in await asyncio.gather(*asked):
            assert [found[4] for found in each] == [("127.0.0.1", 1)]

    asyncio.run(story())
    assert resolver.asked == 1


def test_on_a_loop_what_it_answers_is_told_to_each_who_waits(resolver: Resolver) -> None:
    resolver.found = None

    async def story() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop_connections.addresses(NAME, 1), 0.05)
        asked = [asyncio.ensure_future(loop_connections.addresses(NAME, 1)) for _ in range(2)]
        await asyncio.sleep(0)
        resolver.answers.set()
        for each in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(each, socket.gaierror)
        with pytest.raises(socket.gaierror):  # remembered for a moment
            await loop_connections.addresses(NAME, 1)

    asyncio.run(story())
    assert resolver.asked == 1


def test_on_a_loop_the_next_address_is_tried(resolver: Resolver) -> None:
    """One that refuses, and one that is silent, leave time to the others."""
    resolver.answers.set()

    async def story() -> None:
        listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        with socket.socket() as refuses, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            refuses.bind(("127.0.0.1", 0))
            with socket.create_connection(full.getsockname()):  # and there is no more room
                resolver.before = [
                    (socket.AF_INET, socket.SOCK_STREAM, 6, "", each.getsockname())
                    for each in (refuses, full)
                ]
                await loop_connections.connected(HangsUp, (NAME, port), 3.0)
            resolver.before = resolver.before[:1]
            resolver.found = "127.0.0.1"
            refused = refuses.getsockname()[1]
            with pytest.raises(ConnectionRefusedError):
                await loop_connections.connected(HangsUp, (NAME, refused), 3.0)
        listening.close()

    asyncio.run(story())
