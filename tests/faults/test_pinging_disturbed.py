"""A ping that is disturbed in the middle: its answer is lost, cut anywhere, or its engine starts
anew with nothing. It returns in time, the next one works, and nothing stays behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import locknut
from locknut.core import pinging
from locknut.core.pinging import NAME
from locknut.errors import BackendError, BackendUnavailable
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.testing.proxy import FaultProxy
from locknut.urls import open_engine
from tests.backends.redis.conftest import left_behind
from tests.faults.test_pinging import LATE, both_colours
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.faults
NAMESPACE = "t"
PATIENCE = 60.0
UNDONE = 30.0
"""What is left behind has to be undone, not to run out: that takes twice as long."""
SHORT = 0.5
Do = Callable[[], object]


class Disturbance(NamedTuple):
    """What is done to an engine just before a ping, and after it."""

    begin: Do
    end: Do
    timeout: float = SHORT


@pytest.fixture(autouse=True)
def _nothing_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the ttl of a ping would clear up what the ping should."""
    monkeypatch.setattr(pinging, "_TTL", 60.0)


def disturbed(
    url: str, colour: str, disturbances: list[Disturbance], direct: str, littered: Do = list
) -> None:
    """Each of them costs one ping at most; `direct` is where somebody else looks what is left, and
    `littered` looks at the servers themselves.
    """
    paint = COLOURS[colour]()

    async def told() -> None:
        locks: Any = paint.locks(open_engine(url)[0], Settings(NAMESPACE))
        await works(locks, paint)
        for each in disturbances:
            each.begin()
            began = time.monotonic()
            try:
                with suppress(BackendUnavailable):
                    await locks.ping(timeout=each.timeout)
                assert time.monotonic() - began < each.timeout + LATE
            finally:
                each.end()
            await works(locks, paint)
        with locknut.connect(direct, namespace=NAMESPACE) as other:
            give_up = time.monotonic() + UNDONE
            while other.list() or littered():
                assert time.monotonic() < give_up, "something was left behind"
                await paint.pause(0.02)  # on a loop, what was left behind is undone meanwhile
        await locks.close()

    paint.run(told())


async def works(locks: Any, paint: Any) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            await locks.ping(timeout=20)
        except BackendUnavailable:
            assert time.monotonic() < give_up
            await paint.pause(0.02)  # what is known to be out of reach is told at once
        else:
            return


def lost(proxies: list[FaultProxy]) -> Disturbance:
    """The server does what it is asked to, and nobody hears of it."""

    def each(what: Callable[[FaultProxy], None]) -> None:
        for proxy in proxies:
            what(proxy)

    return Disturbance(lambda: each(lambda p: p.replies.swallow()), lambda: each(FaultProxy.heal))


def cut(proxy: FaultProxy) -> list[Disturbance]:
    """In the answer to the attempt, between it and that to the release, and in the latter."""

    def at(size: int) -> Disturbance:
        return Disturbance(lambda: proxy.replies.cut_after(size), proxy.heal, 20)

    return [at(size) for size in range(1, 60, 4)]


def anew(proxies: list[FaultProxy], restart: Do) -> Disturbance:
    """Its server is killed when the ping was sent and not answered, and comes back with nothing."""
    acting: list[threading.Thread] = []
    over = threading.Event()
    """The ping is: a node that is out of reach just now may not have been asked at all."""

    def act() -> None:
        while not over.wait(0.005):
            if any(proxy.requests.seen(NAME.encode()) for proxy in proxies):
                break
        restart()
        for proxy in proxies:
            proxy.heal()

    def begin() -> None:
        for proxy in proxies:
            proxy.requests.forget()
            proxy.replies.swallow()
        acting.append(threading.Thread(target=act, daemon=True))
        acting[0].start()

    def end() -> None:
        over.set()
        acting[0].join(PATIENCE)

    return Disturbance(begin, end, 20)


@contextmanager
def between(servers: list[Any]) -> Iterator[list[FaultProxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(FaultProxy((each.host, each.port))) for each in servers]


@pytest.mark.redis
@both_colours
def test_redis(colour: str) -> None:
    with RedisServer() as server, between([server]) as (proxy,):
        url = server.url_through(proxy.port)
        littered = lambda: left_behind(server)  # noqa: E731
        disturbed(url, colour, [lost([proxy]), *cut(proxy)], server.url, littered)
        begins_anew = anew([proxy], lambda: server.restart(keep_data=False))
        disturbed(url, colour, [begins_anew], server.url, littered)


@pytest.mark.zookeeper
@both_colours
@pytest.mark.slow
def test_zookeeper(colour: str) -> None:
    def restart() -> None:
        server.kill()
        shutil.rmtree(server.folder / "data")
        server.start()

    with ZooKeeperServer() as server, between([server]) as (proxy,):
        url = f"zookeeper://{proxy.host}:{proxy.port}?session_timeout=4"
        disturbed(url, colour, [lost([proxy]), *cut(proxy)[::3]], server.url)
        disturbed(url, colour, [anew([proxy], restart)], server.url)


@pytest.mark.redlock
@both_colours
def test_redlock(colour: str) -> None:
    with RedlockNodes(3) as nodes, between(nodes.nodes) as proxies:

        def restart() -> None:
            for node in nodes.nodes[:2]:
                node.restart(keep_data=False)

        options = "durable=true&set_name=one"
        hosts = ",".join(f"{proxy.host}:{proxy.port}" for proxy in proxies)
        url, direct = f"redlock://{hosts}?{options}", f"redlock://{nodes.hosts}?{options}"
        key, two = f"{NAMESPACE}:{{{NAME}}}:redlock", proxies[:2]
        answers_are_lost = [lost(two), *cut(proxies[0])[::3], lost(proxies)]
        littered = lambda: any(node.ask("EXISTS", key) for node in nodes.nodes)  # noqa: E731
        for disturbances in (answers_are_lost, [anew(two, restart)]):
            disturbed(url, colour, disturbances, direct, littered)


@pytest.mark.file
@both_colours
def test_a_directory_that_is_removed(colour: str, tmp_path: Path) -> None:
    """It is made again, within the second in which the engine notices."""
    folder = tmp_path / "locks"

    async def made_again(locks: Any, paint: Any) -> None:
        shutil.rmtree(folder)
        give_up = time.monotonic() + PATIENCE
        while not folder.exists():
            assert time.monotonic() < give_up
            await locks.ping(timeout=PATIENCE)
            await paint.pause(0.02)

    on_files(folder, colour, made_again)


@pytest.mark.file
@both_colours
def test_a_directory_that_is_none_any_more(colour: str, tmp_path: Path) -> None:
    """That is told, within the same second."""
    folder, aside = tmp_path / "locks", tmp_path / "aside"

    async def told(locks: Any, paint: Any) -> None:
        folder.rename(aside)
        folder.write_text("no directory")
        give_up = time.monotonic() + PATIENCE
        refused = False
        while not refused:
            assert time.monotonic() < give_up
            try:
                await locks.ping(timeout=PATIENCE)
                await paint.pause(0.02)
            except BackendError:
                refused = True
        folder.unlink()
        aside.rename(folder)

    on_files(folder, colour, told)


def on_files(folder: Path, colour: str, disturb: Callable[[Any, Any], Any]) -> None:
    paint = COLOURS[colour]()

    async def told() -> None:
        locks: Any = paint.locks(open_engine(f"file://{folder}")[0], Settings(NAMESPACE))
        await locks.ping(timeout=PATIENCE)
        await disturb(locks, paint)
        await works(locks, paint)
        assert await locks.list() == []
        await locks.close()

    paint.run(told())


@pytest.mark.file
@both_colours
def test_a_process_that_hangs_with_the_reserved_name(colour: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/locks"
    words = ["run", "-u", url, "--namespace", NAMESPACE, NAME, "--", "sh", "-c", "echo; cat"]
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-m", "locknut", *words],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as hung:
        assert hung.stdout is not None
        assert hung.stdout.readline()  # it holds the lock
        hung.send_signal(signal.SIGSTOP)

        def end() -> None:
            hung.kill()
            hung.communicate()

        disturbed_by_it = Disturbance(lambda: None, end)
        try:
            in_the_way(url, colour, disturbed_by_it)
        finally:
            end()


def in_the_way(url: str, colour: str, each: Disturbance) -> None:
    """From the first ping on, so there is none that works before."""
    paint = COLOURS[colour]()

    async def told() -> None:
        locks: Any = paint.locks(open_engine(url)[0], Settings(NAMESPACE))
        began = time.monotonic()
        with pytest.raises(BackendUnavailable, match="reserved name"):
            await locks.ping(timeout=each.timeout)
        assert time.monotonic() - began < each.timeout + LATE
        each.end()
        await works(locks, paint)
        assert await locks.list() == []
        await locks.close()

    paint.run(told())
