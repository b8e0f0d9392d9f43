"""Ctrl-C at any moment around a lock leaves no ghost on the server: nobody stands in line twice.

A thread that is interrupted leaves its claim, as it is, to the next one of its process.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from kazoo.protocol.serialization import Create2, Delete, GetChildren

import locknut
from locknut.backends.zookeeper import contenders, kazoo_client, node_names, node_swaps
from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.backends.zookeeper.requests import Batch
from locknut.core.values import Claim, Granted, Mode
from locknut.errors import BackendUnavailable
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, run
from tests.api import interrupting, storm
from tests.backends.zookeeper.conftest import Traffic, claim, engine, eventually
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]
KINDS = [kind for kind in storm.KINDS if kind != "renewed"]  # its ttl is longer than a session's


@pytest.fixture
def port(url: str) -> Iterator[ZooKeeperBackend]:
    made: Any = engine(url).blocking(ThreadRuntime())
    warm = claim("warm")
    run(made.attempt(warm, 0.0))
    run(made.release(warm))
    yield made
    run(made.close())


def line(port: ZooKeeperBackend, of: Claim) -> list[str]:
    folders = node_names.folders_of(port.session.settings.root, of)
    return [each.name for each in run(port.line(*folders))]


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("several", [False, True])
def test_who_was_not_told_of_its_node_finds_it_again(
    port: ZooKeeperBackend, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    """It stood in front of itself, for as long as the process lived."""
    claims = [claim("x"), claim("y")]

    def ask() -> Any:
        return run(port.attempt_all(claims) if several else port.attempt(claims[0], 0.0))

    ask_once_and_release(port, claims)  # the lock's own nodes are there
    with monkeypatch.context() as patched:
        patched.setattr(port, "stood", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ask()
    traffic = Traffic(port.session)
    granted = run(port.attempt(claims[0], 0.0))
    assert traffic.batches[0] == ["Transaction", "GetChildren"], "a majority has to answer first"
    assert isinstance(granted, Granted)
    assert granted.raw
    assert len(line(port, claims[0])) == 1
    for each in claims:
        run(port.release(each))
        assert line(port, each) == []


def ask_once_and_release(port: ZooKeeperBackend, claims: list[Claim]) -> None:
    for each in claims:
        other = claim(each.key.partition(":")[2])
        run(port.attempt(other, 0.0))
        run(port.release(other))


def test_who_is_interrupted_while_it_finds_its_node_has_its_number(
    port: ZooKeeperBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = claim("x")
    for at, step in [(port, "stood"), (contenders, "raw_of")]:
        with monkeypatch.context() as patched:
            patched.setattr(at, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                run(port.attempt(mine, 0.0))
    granted = run(port.attempt(mine, 0.0))
    assert isinstance(granted, Granted)
    assert granted.raw > 0
    assert run(port.release(mine))


def test_a_node_that_is_removed_while_its_claim_looks_for_it_is_made_again(
    port: ZooKeeperBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an operator, or a force_release, between the list and the look at it."""
    mine = claim("x")
    with monkeypatch.context() as patched:
        patched.setattr(port, "stood", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(port.attempt(mine, 0.0))
    (folder,) = node_names.folders_of(port.session.settings.root, mine)
    (ghost,) = line(port, mine)
    real = port.line

    async def late(*folders: str, fresh: bool = False) -> Any:
        found = await real(*folders, fresh=fresh)
        if fresh:
            await port.ask(Delete(f"{folder}/{ghost}", -1))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(port, "line", late)
        assert isinstance(run(port.attempt(mine, 0.0)), Granted)
    (made,) = line(port, mine)
    assert made != ghost
    assert run(port.release(mine))


def test_a_hold_that_is_taken_over_while_the_session_ends_is_not_given_out(
    port: ZooKeeperBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, taker = claim("x"), claim("x")
    run(port.attempt(held, 0.0))
    assert run(port.detach(held, 5.0))
    real = node_swaps.attach

    async def late(*given: Any) -> Any:
        place = await real(*given)
        port.session.epoch += 1
        return place

    with monkeypatch.context() as patched:
        patched.setattr(node_swaps, "attach", late)
        with pytest.raises(BackendUnavailable):
            run(port.attach(held, taker))
    run(port.release(taker))


@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.PERMIT])
def test_a_hold_that_an_interrupted_attach_took_over_is_detached_again(
    port: ZooKeeperBackend, mode: Mode
) -> None:
    detached, given_up, mine = (claim("x", mode=mode, permits=1) for _ in range(3))
    granted = run(port.attempt(detached, 0.0))
    assert isinstance(granted, Granted)
    assert run(port.detach(detached, 60.0))
    assert run(port.attach(detached, given_up)) is not None
    for _ in range(2):  # an answer may be lost
        run(port.undo_attach(given_up, detached._replace(ttl=60.0)))
        (node,) = node_names.nodes(line(port, mine))
        assert (node.id, node.detached) == (detached.id, True)
    taken = run(port.attach(detached, mine))
    assert taken is not None
    assert taken.raw == granted.raw
    run(port.undo_attach(given_up, detached._replace(ttl=60.0)))
    assert run(port.release(mine))
    assert line(port, mine) == []


def test_an_attach_that_failed_leaves_the_text_good(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locknut.connect(url) as web, locknut.connect(url) as worker:
        lease = web.lock("x").acquire()
        assert lease is not None
        text = lease.detach(ttl=60)
        attach = node_swaps.attach

        async def done(*given: Any) -> Any:
            await attach(*given)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(node_swaps, "attach", done)
            with pytest.raises(KeyboardInterrupt):
                worker.attach(text)
        found: list[locknut.Lease] = []

        def attached() -> bool:
            with suppress(locknut.LeaseLost):
                found.append(worker.attach(text))
            return bool(found)

        eventually(attached, "detached again, by the keeper")
        assert found[0].fence == lease.fence


@pytest.mark.parametrize("session_ends", [False, True])
@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.PERMIT])
def test_a_detach_in_doubt_is_given_back(
    port: ZooKeeperBackend, monkeypatch: pytest.MonkeyPatch, mode: Mode, session_ends: bool
) -> None:
    """Nobody was given the text, and no session takes the detached node with it: it stayed for all
    of the time that was asked for it.
    """
    mine = claim("x", mode=mode, permits=1)
    assert isinstance(run(port.attempt(mine, 0.0)), Granted)
    real = port.all_or_nothing

    async def done(*operations: Any) -> bool:
        await real(*operations)
        raise BackendUnavailable("the answer is lost")

    with monkeypatch.context() as patched:
        patched.setattr(port, "all_or_nothing", done)
        with pytest.raises(BackendUnavailable):
            run(port.detach(mine, 3600.0))
    assert [node.detached for node in node_names.nodes(line(port, mine))] == [True]
    if session_ends:
        port.session.epoch += 1
    run(port.release(mine, outcome_unknown=True))
    assert line(port, mine) == []


def test_a_reader_that_was_a_writer_is_found_by_whoever_releases_it(
    port: ZooKeeperBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = claim("x")
    run(port.attempt(mine, 0.0))
    real = port.all_or_nothing

    async def done(*operations: Any) -> bool:
        await real(*operations)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(port, "all_or_nothing", done)
        with pytest.raises(KeyboardInterrupt):
            run(port.downgrade(mine))
    assert [node_names.nodes(line(port, mine))[0].mode] == [Mode.SHARED]
    run(port.release(mine))
    assert line(port, mine) == []


def test_what_was_left_to_kazoos_thread_is_not_overtaken(port: ZooKeeperBackend) -> None:
    """There was no connection for a moment, and nothing has been sent since: Ctrl-C before the
    thread was rung. What is asked now must see it.
    """
    mine = claim("x")
    run(port.attempt(mine, 0.0))
    (folder,) = node_names.folders_of(port.session.settings.root, mine)
    late = Create2(f"{folder}/late", b"", port.session.acl, 0)

    batch = Batch([late], port.session.proof, lambda _: None, now)
    port.session._client._queue.append((late, batch))
    (found,) = run(port.ask(GetChildren(folder, None)))
    assert "late" in found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_in_a_storm(zookeeper_server: ZooKeeperServer, kind: str) -> None:
    interrupting.storm(f"{zookeeper_server.url}/{secrets.token_hex(4)}", kind, longest=8e-3)


def test_who_is_interrupted_while_it_connects_connects_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would ever start kazoo's thread; and who starts it has no signals."""
    starters: list[threading.Thread] = []
    real = kazoo_client.SharedKazooClient.start_async

    def start(client: kazoo_client.SharedKazooClient) -> None:
        starters.append(threading.current_thread())
        real(client)

    begin, main = threading.Thread.start, threading.current_thread()

    def begun(thread: threading.Thread) -> None:
        if thread.name == "locknut-start" and threading.current_thread() is main:
            raise KeyboardInterrupt  # no other thread has signals
        begin(thread)

    monkeypatch.setattr(kazoo_client.SharedKazooClient, "start_async", start)
    with locknut.connect(url) as locks:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", begun)
            with pytest.raises(KeyboardInterrupt):
                locks.lock("x").acquire()
        with locks.lock("x", timeout=30) as lease:
            assert lease.held
    assert len(starters) == 1
    assert main not in starters
