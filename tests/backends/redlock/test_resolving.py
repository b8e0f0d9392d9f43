"""A node whose name is not found, or that does not agree about TLS, holds nobody else up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

import locknut
from locknut.backends.redlock.background_dial import BackgroundDial
from locknut.backends.redlock.nodes import Node
from locknut.core.values import Granted
from locknut.drivers.redis import settings
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.redlock import Redlock
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine, parse
from tests.backends.redlock.test_tries import claim
from tests.descriptors import descriptors_left
from tests.no_threads import no_threads
from tests.servers.processes import PATIENCE, until
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
        with locks.lock("x", ttl=6, timeout=10) as lease:
            until(lambda: names.asked, "it is looked up")  # two nodes may be quicker than that
            for _ in range(2):  # not for so long: a busy machine is late for its own reasons
                last = lease._hold.anchor
                until(lambda: lease._hold.anchor > last, "it is renewed")  # noqa: B023
            with locks.lock("y", timeout=10):
                pass
        assert names.asked < 4, "one look-up at a time"


def test_a_name_that_nobody_knows_is_looked_up_now_and_then(
    three: RedlockNodes, names: Resolver
) -> None:
    """Each acquire would start a thread for it, and ask the resolver."""
    names.answers.set()
    with locknut.connect(url_of(three)) as locks:
        began, pairs = now(), 1000
        for _ in range(pairs):
            with locks.lock("x", timeout=10):
                pass
        # This thread and the keeper; both leave a node alone that failed, soon for 2 s each time.
        assert 0 < names.asked <= 2 * (4 + now() - began)
        assert pairs > 4 * (4 + now() - began), "this test can fail"


def test_without_a_thread_to_look_it_up_the_others_vote(
    three: RedlockNodes, names: Resolver
) -> None:
    """Whoever asked got a RuntimeError; and its thread never looked the name up again."""
    names.found = "127.0.0.1"
    names.answers.set()
    backend = open_engine(url_of(three))[0].blocking(ThreadRuntime())
    first, second = claim(), claim()
    with no_threads():
        assert isinstance(run(backend.attempt(first, 0.0)), Granted)
        assert not names.asked
    run(backend.release(first))

    def looked_up() -> bool:
        run(backend.attempt(second, 0.0))
        run(backend.release(second))
        return bool(names.asked)

    until(looked_up, "it is looked up as soon as there is a thread for it")
    run(backend.close())


def test_a_thread_that_may_open_no_more_files_gets_our_error(three: RedlockNodes) -> None:
    """It was an OSError, which nobody waits for and nobody catches."""
    backend = open_engine(three.url)[0].blocking(ThreadRuntime())
    with descriptors_left(0), pytest.raises(locknut.BackendUnavailable, match="Too many open"):
        run(backend.attempt(claim(), 0.0))
    assert isinstance(run(backend.attempt(claim(), 0.0)), Granted)
    run(backend.close())


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
            silent.settimeout(PATIENCE)
            accepted, _ = silent.accept()
            with accepted:
                accepted.settimeout(PATIENCE)
                assert accepted.recv(10), "it was tried"
                assert not hung_up(accepted), "and nobody has given up on it yet"


def hung_up(accepted: socket.socket) -> bool:
    """Whether the other end has closed the connection; what it said before is passed over."""
    accepted.setblocking(False)
    try:
        while accepted.recv(100_000):
            pass
    except BlockingIOError:
        return False
    return True
