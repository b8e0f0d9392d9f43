"""A caller that starts a thread does not wait until it runs.

An interrupt (Ctrl-C) in that wait comes out as a RuntimeError of the event that is waited for, or
leaves the caller's own state half made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import locknut
from locknut.backends.redlock.background_dial import BackgroundDial
from locknut.backends.redlock.nodes import Node
from locknut.backends.zookeeper.session import Session
from locknut.backends.zookeeper.settings import from_url
from locknut.cli import run_lock
from locknut.drivers.etcd.key_watcher import Watcher
from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.settings import read
from locknut.drivers.redis import settings
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.observer.place_observer import PlaceObserver
from locknut.runtimes import cpython
from locknut.runtimes.clock import now
from locknut.urls import parse
from tests.servers.processes import until

pytestmark = pytest.mark.skipif(not cpython.IS_KNOWN, reason="the public way waits")
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this thread nobody waits for any event."""
    caller, wait = threading.current_thread(), threading.Event.wait

    def waited(event: threading.Event, timeout: float | None = None) -> bool:
        assert threading.current_thread() is not caller, "it waited for the thread that it started"
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", waited)
    yield
    monkeypatch.undo()


def dial() -> Callable[[], object]:
    node = Node(0, FixedEndpoint(settings.read(parse(f"redis://{NOWHERE}"))), 60.0, now)
    made = BackgroundDial(node, lambda: None)
    made.start()
    return lambda: made.done


def session() -> Callable[[], object]:
    made: Any = Session(from_url(parse(f"zookeeper://{NOWHERE}")), now)
    made.join()
    made.when_connected(lambda: None)
    until(lambda: made._client is not None, "a client")
    closing = made.leave()
    return lambda: not closing.is_alive() and closing.ident is not None


def watcher() -> Callable[[], object]:
    found = read(parse(f"etcd://{NOWHERE}"))
    made: Any = Watcher(found, Members(found))
    made.watch(b"a", b"b", 1, lambda _: None)
    running = made._bell
    made.stop()
    return lambda: running.fileno() < 0


def observer() -> Callable[[], object]:
    made: Any = PlaceObserver(locknut.connect("memory:started-observer"))
    made.start()
    thread = made._thread
    made._closed = True  # as `close` does, which waits for its end
    made._bell.set()
    return lambda: thread.ident is not None and not thread.is_alive()


def watch_of_leaders() -> Callable[[], object]:
    told: list[object] = []
    stop = locknut.connect("memory:started-watch").election("x").on_change(told.append)
    return lambda: told and not stop()


def message_about_a_wait() -> Callable[[], object]:
    said: Any = SimpleNamespace(verbose=False, chatty=True)
    nobody: Any = None
    with run_lock._told_soon(nobody, nobody, said):
        pass
    return lambda: True


@pytest.mark.usefixtures("no_wait")
@pytest.mark.parametrize(
    "starts", [dial, session, watcher, observer, watch_of_leaders, message_about_a_wait]
)
def test_nobody_waits_for_it(starts: Callable[[], Callable[[], object]]) -> None:
    ended = starts()
    until(ended, "the thread has done its work")
