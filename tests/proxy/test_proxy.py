"""Each fault of the proxy is the fault it says, shown on a server that repeats what it did."""

from __future__ import annotations

import asyncio
import gc
import queue
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from locknut.testing.proxy import FaultProxy
from tests.servers.ports import HOST, Ports

SHORT = 0.05
"""How long a reply that must not come is waited for."""
LONG = 30.0


class Repeating(socketserver.StreamRequestHandler):
    """Does what each line says, and answers that it did."""

    def handle(self) -> None:
        assert isinstance(self.server, Server)
        try:
            for line in self.rfile:
                self.server.done.put(line)
                self.wfile.write(b"did " + line)
        except OSError:
            pass
        self.server.done.put(b"hung up")


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        self.done: queue.Queue[bytes] = queue.Queue()
        super().__init__(("127.0.0.1", 0), Repeating)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.socket.getsockname()
        return host, port

    def next(self) -> bytes:
        return self.done.get(timeout=LONG)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultProxy]:
    with FaultProxy(server.address) as running:
        yield running
    assert "fault-proxy" not in [thread.name for thread in threading.enumerate()]


class Client:
    """A line there, a line back."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.socket = socket.create_connection((proxy.host, proxy.port), LONG)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, line: bytes) -> None:
        self.socket.sendall(line)

    def read(self, size: int = 65536) -> bytes:
        self.socket.settimeout(LONG)
        return self.socket.recv(size)

    def line(self) -> bytes:
        while b"\n" not in self._rest:
            piece = self.read()
            assert piece, f"hung up after {self._rest[:100]!r}"
            self._rest += piece
        line, end, self._rest = self._rest.partition(b"\n")
        return line + end

    def hears_nothing(self) -> bool:
        self.socket.settimeout(SHORT)
        try:
            self.socket.recv(1)
        except TimeoutError:
            return True
        return False


def test_it_hands_on_both_ways(proxy: FaultProxy) -> None:
    with Client(proxy) as one, Client(proxy) as two:
        for index in range(10):
            one.send(b"one %d\n" % index)
            two.send(b"two %d\n" % index)
            assert one.line() == b"did one %d\n" % index
            assert two.line() == b"did two %d\n" % index


def test_much_at_once(proxy: FaultProxy) -> None:
    """More than all buffers on the way together."""
    line = b"x" * 4_000_000 + b"\n"
    with Client(proxy) as client:
        sender = threading.Thread(target=client.socket.sendall, args=(line,))
        sender.start()
        assert client.line() == b"did " + line
        sender.join()


def test_an_end_is_handed_on_both_ways(proxy: FaultProxy, server: Server) -> None:
    with Client(proxy) as client:
        client.send(b"a\n")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.line() == b"did a\n"
        assert client.read() == b""
    assert [server.next(), server.next()] == [b"a\n", b"hung up"]


def test_a_delay_is_per_direction_and_keeps_the_order(proxy: FaultProxy, server: Server) -> None:
    proxy.replies.delay(0.1)
    with Client(proxy) as client:
        began = time.monotonic()
        client.send(b"a\n")
        assert server.next() == b"a\n"
        client.send(b"b\n")
        assert client.line() == b"did a\n"
        assert time.monotonic() - began >= 0.1
        proxy.replies.forward()
        client.send(b"c\n")
        assert [client.line(), client.line()] == [b"did b\n", b"did c\n"]


def test_a_swallowed_reply_was_done(proxy: FaultProxy, server: Server) -> None:
    """The key test of unknown outcomes: the server did it and the client cannot know."""
    proxy.replies.swallow()
    with Client(proxy) as client:
        client.send(b"a\n")
        assert server.next() == b"a\n"
        proxy.replies.wait_for(b"did a")
        assert client.hears_nothing()
        proxy.replies.forward()
        assert client.read() == b"", "a stream with a gap must not go on"
    with Client(proxy) as another:
        another.send(b"b\n")
        assert another.line() == b"did b\n"


def test_a_swallowed_request_was_not_done(proxy: FaultProxy, server: Server) -> None:
    proxy.requests.swallow()
    with Client(proxy) as client:
        client.send(b"a\n")
        proxy.requests.wait_for(b"a\n")
        assert client.hears_nothing()
    assert server.done.empty()


def test_held_requests_come_late_though_the_client_is_gone(
    proxy: FaultProxy, server: Server
) -> None:
    """L3: stuck in a dead connection, applied all the same."""
    proxy.requests.hold()
    with Client(proxy) as client:
        client.send(b"a\n")
        client.send(b"b\n")
        proxy.requests.wait_for(b"b\n")
        assert client.hears_nothing()
    with Client(proxy) as client:
        client.send(b"c\n")
        proxy.requests.wait_for(b"c\n")
        assert server.done.empty()
        proxy.requests.release()
        done = [server.next() for _ in range(4)]
        assert done.index(b"a\n") < done.index(b"b\n") < done.index(b"hung up")
        assert client.line() == b"did c\n"


def test_held_replies_come_later(proxy: FaultProxy, server: Server) -> None:
    proxy.replies.hold()
    with Client(proxy) as client:
        client.send(b"a\n")
        proxy.replies.wait_for(b"did a\n")
        assert client.hears_nothing()
        proxy.replies.release()
        assert client.line() == b"did a\n"
        client.send(b"b\n")
        assert client.line() == b"did b\n"


def test_packets_are_split(proxy: FaultProxy) -> None:
    proxy.replies.split(3, pause=0.01)
    with Client(proxy) as client:
        client.send(b"0123456789\n")
        first = client.read()
        assert b"did 0123456789\n".startswith(first)
        assert len(first) < 15
        assert first + client.line() == b"did 0123456789\n"


def test_every_connection_is_cut(proxy: FaultProxy, server: Server) -> None:
    with Client(proxy) as one, Client(proxy) as two:
        for client in (one, two):
            client.send(b"a\n")
            client.line()
        assert len(proxy.connections) == 2
        proxy.cut()
        assert one.read() == two.read() == b""
    assert [server.next() for _ in range(4)].count(b"hung up") == 2
    with Client(proxy) as three:
        three.send(b"b\n")
        assert three.line() == b"did b\n"


def test_a_connection_is_reset(proxy: FaultProxy) -> None:
    with Client(proxy) as client:
        client.send(b"a\n")
        client.line()
        (connection,) = proxy.connections
        connection.cut(reset=True)
        with pytest.raises(ConnectionResetError):
            client.read()


def test_it_is_cut_where_something_arrives(proxy: FaultProxy, server: Server) -> None:
    proxy.requests.cut_at(b"kill me")
    with Client(proxy) as client:
        client.send(b"a\n")
        assert client.line() == b"did a\n"
        client.send(b"please ki")
        proxy.requests.wait_for(b"please ki")
        client.send(b"ll me\n")
        assert client.read() == b""
    assert [server.next() for _ in range(3)] == [b"a\n", b"please ki", b"hung up"]


def test_it_is_cut_in_the_middle_of_a_reply(proxy: FaultProxy, server: Server) -> None:
    with Client(proxy) as client:
        client.send(b"a\n")
        client.line()
        proxy.replies.cut_after(6)
        client.send(b"b\nc\n")
        data = b""
        while piece := client.read():
            data += piece
        assert data == b"did b\n"
    with Client(proxy) as client:
        client.send(b"d\n")
        proxy.replies.wait_for(b"did d")
        assert client.line() == b"did d\n"
        assert client.read() == b""


def test_in_a_black_hole_nobody_hears_of_anything(proxy: FaultProxy, server: Server) -> None:
    with Client(proxy) as client:
        client.send(b"a\n")
        client.line()
        assert server.next() == b"a\n"
        proxy.black_hole()
        client.send(b"b\n")
        assert client.hears_nothing()
        with Client(proxy) as another:
            another.send(b"c\n")
            assert another.hears_nothing()
    proxy.requests.wait_for(b"c\n")
    assert server.done.empty(), "the server must not even hear that the clients are gone"
    proxy.heal()
    assert server.next() == b"hung up"


def test_stranded_connections_are_half_open_and_new_ones_work(
    proxy: FaultProxy, server: Server
) -> None:
    """L5: the server still serves a client that has long been somewhere else."""
    with Client(proxy) as old, Client(proxy) as new:
        old.send(b"a\n")
        old.line()
        (connection, *_) = proxy.connections
        connection.requests.swallow()
        connection.replies.swallow()
        old.send(b"b\n")
        new.send(b"c\n")
        assert new.line() == b"did c\n"
        assert old.hears_nothing()
        proxy.strand()
        new.send(b"d\n")
        with Client(proxy) as newest:
            newest.send(b"e\n")
            assert newest.line() == b"did e\n"
        assert new.hears_nothing()
    done = [server.next() for _ in range(4)]
    assert done == [b"a\n", b"c\n", b"e\n", b"hung up"]


def test_connections_are_refused_and_the_port_stays(proxy: FaultProxy) -> None:
    with Client(proxy) as client:
        client.send(b"a\n")
        client.line()
        port = proxy.port
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError), Client(proxy):
            pass
        client.send(b"b\n")
        assert client.line() == b"did b\n"
        proxy.heal()
        assert proxy.port == port
        with Client(proxy) as another:
            another.send(b"c\n")
            assert another.line() == b"did c\n"


@contextmanager
def while_it_stands_still(
    proxy: FaultProxy, then: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """What is done here is done before the proxy does anything, and `then` has been asked for."""
    loop = proxy._loop._loop
    stands, goes_on, asked = threading.Event(), threading.Event(), threading.Event()

    def stand_still() -> None:
        stands.set()
        goes_on.wait(LONG)

    loop.call_soon_threadsafe(stand_still)
    assert stands.wait(LONG)
    try:
        yield
        soon = loop.call_soon_threadsafe

        def noted(*args: Any, **more: Any) -> Any:
            handle = soon(*args, **more)
            asked.set()
            return handle

        monkeypatch.setattr(loop, "call_soon_threadsafe", noted)
        asking = threading.Thread(target=then)
        asking.start()
        assert asked.wait(LONG)
    finally:
        goes_on.set()
    asking.join()


def test_a_client_that_has_just_connected_is_cut(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy has not even accepted it: to its client it is connected all the same."""
    with ExitStack() as clients:
        with while_it_stands_still(proxy, proxy.cut, monkeypatch):
            connected = [clients.enter_context(Client(proxy)) for _ in range(3)]
        assert [client.read() for client in connected] == [b""] * 3


def test_a_client_that_connects_while_it_closes_is_not_left_open(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = FaultProxy(server.address)
    with ExitStack() as clients:
        with while_it_stands_still(proxy, proxy.close, monkeypatch):
            connected = [clients.enter_context(Client(proxy)) for _ in range(3)]
        for client in connected:
            with suppress(ConnectionResetError):
                assert client.read() == b""


def test_a_client_that_has_hung_up_again_leaves_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = FaultProxy(server.address)
    with while_it_stands_still(proxy, proxy.close, monkeypatch), Client(proxy):
        pass
    gc.collect()  # what was left open would warn now, and warnings are errors


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    ports = Ports()
    (nobodys,) = ports.reserve(1)
    with FaultProxy((HOST, nobodys)) as proxy, Client(proxy) as client:
        assert client.read() == b""
    ports.close()


def test_what_passes_can_be_waited_for_and_counted(proxy: FaultProxy) -> None:
    with Client(proxy) as client:
        threading.Timer(SHORT, client.send, [b"ping\nping\n"]).start()
        proxy.requests.wait_for(b"ping", count=2)
        assert proxy.requests.seen(b"ping") == 2
        proxy.requests.forget()
        assert proxy.requests.seen(b"ping") == 0
        with pytest.raises(TimeoutError, match="'never' 1 time"):
            proxy.replies.wait_for(b"never", timeout=SHORT)
        client.send(b"pong\n")
        proxy.replies.wait_for(b"did pong\n")
    assert proxy.accepted == 1
    with Client(proxy):
        proxy.wait_for_connections(2)


def test_what_an_ended_connection_carried_is_remembered(proxy: FaultProxy) -> None:
    with Client(proxy) as client:
        client.send(b"remember\n")
        client.line()
        proxy.cut()
        assert client.read() == b""
    assert proxy.requests.seen(b"remember") == 1


def test_a_server_behind_a_unix_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with FaultProxy(str(tmp_path / "s")) as proxy, Client(proxy) as client:
            accepted, _ = listener.accept()
            with accepted:
                client.send(b"a\n")
                assert accepted.recv(10) == b"a\n"
                accepted.sendall(b"b\n")
                assert client.line() == b"b\n"


def test_clients_on_an_event_loop(proxy: FaultProxy) -> None:
    async def talk() -> None:
        reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
        proxy.replies.hold()
        writer.write(b"a\n")
        await asyncio.to_thread(proxy.replies.wait_for, b"did a")
        proxy.replies.release()
        assert await reader.readline() == b"did a\n"
        proxy.cut()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    asyncio.run(talk())


def test_closing_twice_and_with_open_connections(server: Server) -> None:
    proxy = FaultProxy(server.address)
    with Client(proxy) as client:
        client.send(b"a\n")
        client.line()
        proxy.black_hole()
        proxy.close()
        proxy.close()
        assert client.read() == b""
