"""A node whose name is not found, or that does not agree about TLS, holds nobody else up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

import locknut
from locknut.backends.redlock.background_dial import BackgroundDial
from locknut.backends.redlock.nodes import Node
from locknut.drivers.redis import settings
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.redlock import Redlock
from locknut.runtimes.clock import now
from locknut.urls import parse
from tests.servers.processes import until
from tests.servers.redlock import RedlockNodes
from tests.servers.resolver import Resolver, in_its_place

pytestmark = pytest.mark.redis
NAME = "node.example"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    """Silent, and then nobody knows the name."""
    with in_its_place(monkeypatch, NAME) as resolver:
        resolver.found = None
        yield resolver


def url_of(nodes: RedlockNodes) -> str:
    hosts = nodes.hosts.rpartition(",")[0]
    return f"redlock://{hosts},{NAME}:{nodes.nodes[2].port}?durable=true"


def test_a_name_that_is_not_found_holds_nobody_up(three: RedlockNodes, names: Resolver) -> None:
    """Neither who asks nor who renews, while the resolver is silent."""
    with locknut.connect(url_of(three)) as locks:
        with locks.lock("x", ttl=3, timeout=10) as lease:
            until(lambda: names.asked, "it is looked up")  # two nodes may be quicker than that
            assert not lease.lost.wait(4)
            with locks.lock("y", timeout=10):
                pass
        assert names.asked < 4, "one look-up at a time"


def test_it_is_used_when_it_is_found(three: RedlockNodes, names: Resolver) -> None:
    names.found = "127.0.0.1"
    names.answers.set()
    with locknut.connect(url_of(three)) as locks:
        voted(locks, three)


def test_every_address_of_a_name_is_tried(three: RedlockNodes, names: Resolver) -> None:
    """As `localhost` has one of the sixth version, where a server may not listen. Only the first
    was tried.
    """
    names.found = "127.0.0.1"
    names.before = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]
    names.answers.set()
    with locknut.connect(url_of(three)) as locks:
        voted(locks, three)


def test_the_last_address_is_used_while_nobody_knows_the_name(
    three: RedlockNodes, names: Resolver
) -> None:
    names.found = "127.0.0.1"
    names.answers.set()
    with locknut.connect(url_of(three)) as locks:
        voted(locks, three)
        names.found, asked = None, names.asked
        three.nodes[2].kill()

        def looked_up_again() -> bool:
            with locks.lock("x", timeout=10):
                return names.asked > asked

        until(looked_up_again, "the address is not taken for granted any more")
        three.nodes[2].start()
        voted(locks, three)


def test_whatever_looking_it_up_raises_is_told(names: Resolver) -> None:
    """The thread died of it, and whoever waited for the connection waited for ever."""
    names.error = UnicodeError("label too long")
    names.answers.set()
    rung = threading.Event()
    node = Node(0, FixedEndpoint(settings.read(parse(f"redis://{NAME}"))), 60.0, now)
    dial = BackgroundDial(node, rung.set)
    dial.start()
    assert rung.wait(20)
    assert dial.done
    assert dial.error is names.error


def voted(locks: locknut.Locks, nodes: RedlockNodes) -> None:
    def all_of_them() -> bool:
        with locks.lock("x", timeout=10):
            return all(n.ask("EXISTS", "locknut:{x}:redlock") for n in nodes.nodes)

    until(all_of_them, "all of them vote")


def test_a_node_that_is_silent_about_tls_holds_nobody_up(three: RedlockNodes) -> None:
    """It takes the connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        urls = [f"redis://{node.host}:{node.port}" for node in three.nodes[:2]]
        urls.append(f"rediss://127.0.0.1:{silent.getsockname()[1]}?socket_connect_timeout=60")
        with locknut.connect(Redlock(urls, durable=True)) as locks:
            for _ in range(3):
                with locks.lock("x", ttl=3, timeout=10) as lease:
                    assert lease.held
            accepted, _ = silent.accept()  # it was tried, and nobody has given up on it yet
            accepted.setblocking(False)
            assert accepted.recv(10)
            with pytest.raises(BlockingIOError):
                accepted.recv(100_000) and accepted.recv(100_000)
            accepted.close()
