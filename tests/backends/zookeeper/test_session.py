"""What becomes of holds when the connection or the session goes: told in time, and truly."""

from __future__ import annotations

import asyncio
import gc
import os
import signal as signals
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.serialization import Exists

import locknut
from locknut import aio
from locknut.backends.zookeeper.kazoo_client import SharedKazooClient
from locknut.backends.zookeeper.requests import Batch
from locknut.backends.zookeeper.session import Session
from locknut.backends.zookeeper.session_proof import Proof
from locknut.backends.zookeeper.settings import from_url
from locknut.core.values import Granted, Renewal, State
from locknut.errors import BackendUnavailable, LeaseLost
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.testing.proxy import FaultProxy
from locknut.urls import parse
from tests.backends.zookeeper.conftest import (
    PATIENCE,
    children,
    claim,
    engine,
    eventually,
    kazoo_client,
    root,
)
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]

SESSION = 3.0
HOLDER = """
import sys, locknut
locks = locknut.connect(sys.argv[1])
locks.lock("x").acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[FaultProxy]:
    with FaultProxy((server.host, server.port)) as made:
        yield made


@pytest.fixture
def path() -> str:
    return root()


def through(proxy: FaultProxy, path: str, session: float = SESSION) -> str:
    return f"zookeeper://127.0.0.1:{proxy.port}/{path}?session_timeout={session:g}"


def test_a_short_cut_puts_a_lease_at_risk_and_nothing_is_lost(
    proxy: FaultProxy, path: str, server: ZooKeeperServer
) -> None:
    events: list[str] = []
    with locknut.connect(through(proxy, path, 20)) as locks:
        locks.on_event(lambda event: events.append(event.kind))
        with locks.lock("x") as lease:
            proxy.refuse()
            proxy.cut()
            eventually(lambda: lease.state is State.AT_RISK, "at risk")
            with locknut.connect(f"{server.url}/{path}") as other:
                assert other.lock("x").acquire(timeout=0.1) is None
            proxy.heal()
            eventually(lambda: lease.state is State.HELD, "held again")
            lease.renew()
    assert "lost" not in events


@pytest.mark.slow
def test_a_long_cut_is_a_loss_that_the_holder_knows_first(
    proxy: FaultProxy, path: str, server: ZooKeeperServer
) -> None:
    with (
        locknut.connect(through(proxy, path)) as locks,
        locknut.connect(f"{server.url}/{path}") as others,
    ):
        lease = locks.lock("x").acquire()
        assert lease is not None
        proxy.black_hole()
        with others.lock("x", timeout=PATIENCE) as next_one:
            assert lease.state is State.LOST
            assert next_one.fence > lease.fence
        with pytest.raises(LeaseLost):
            lease.release()
        proxy.heal()
        with locks.lock("x", timeout=PATIENCE) as again:  # in a new session
            assert again.fence > next_one.fence


@pytest.mark.slow
def test_a_long_cut_on_a_loop(proxy: FaultProxy, path: str, server: ZooKeeperServer) -> None:
    async def story() -> None:
        async with (
            aio.connect(through(proxy, path)) as locks,
            aio.connect(f"{server.url}/{path}") as others,
        ):
            lease = await locks.lock("x").acquire()
            assert lease is not None
            proxy.black_hole()
            async with others.lock("x", timeout=PATIENCE):
                assert lease.state is State.LOST
            proxy.heal()
            async with locks.lock("x", timeout=PATIENCE):
                pass

    asyncio.run(story())


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.slow
def test_what_was_lost_or_released_in_an_outage_is_given_back_after_it(
    proxy: FaultProxy, path: str, server: ZooKeeperServer, released: bool
) -> None:
    """The session outlives the outage, and no ttl removes its nodes."""
    with (
        locknut.connect(through(proxy, path, 30)) as locks,
        locknut.connect(f"{server.url}/{path}") as others,
    ):
        lease = locks.lock("x", ttl=0.5 if not released else None).acquire()
        assert lease is not None
        epoch = locks._client.backend.session.epoch  # type: ignore[attr-defined]
        proxy.refuse()
        proxy.cut()
        if released:
            with pytest.raises(BackendUnavailable):
                lease.release()
        else:
            assert lease.lost.wait(PATIENCE)
        outage = 2.5 if released else 7.0  # much longer than its ttl, and than a command takes
        assert others.lock("x").acquire(timeout=outage) is None
        proxy.heal()
        with others.lock("x", timeout=PATIENCE):
            pass
        with locks.lock("x", timeout=PATIENCE):
            pass
        assert locks._client.backend.session.epoch == epoch  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_session_that_is_shorter_than_asked_for_keeps_its_leases() -> None:
    """Renewals come as often as what was granted needs."""
    with (
        ZooKeeperServer(longest_session=3000) as server,
        locknut.connect(f"{server.url}?session_timeout=40") as locks,
        locks.lock("x") as lease,
        locks.semaphore("y", 2, ttl=20) as permit,
    ):
        assert lease.remaining < 3
        assert not lease.lost.wait(6)
        assert permit.held


def test_an_expired_session_is_told_at_once_where_kazoo_says_nothing(
    proxy: FaultProxy, path: str, server: ZooKeeperServer
) -> None:
    """The server says that the session is over: every lease of it is lost in that moment."""
    with (
        locknut.connect(through(proxy, path, 20)) as locks,
        kazoo_client(server.address) as naive,
    ):
        lease = locks.lock("x").acquire()
        assert lease is not None
        theirs = naive.Lock(f"/{path}/locknut/y")
        theirs.acquire()
        client = locks._client.backend.session._client  # type: ignore[attr-defined]
        for each in (client, naive):
            _end_session(each, server)
        assert lease.lost.wait(PATIENCE)
        assert lease.reason == "session"
        assert naive.retry(naive.get_children, f"/{path}/locknut/y") == []
        assert theirs.is_acquired, "kazoo's own lock goes on believing"


def _end_session(client: KazooClient, server: ZooKeeperServer) -> None:
    """As an operator or the leader would: by its own id, from another connection."""
    double = KazooClient(server.address, client_id=client.client_id)
    double.start(PATIENCE)
    double.stop()
    double.close()


def test_a_reply_that_was_lost_leaves_one_node_and_one_grant(
    proxy: FaultProxy, path: str, beside: KazooClient
) -> None:
    port = engine(through(proxy, path, 8)).blocking(ThreadRuntime())
    warm, wanted = claim("warm"), claim()
    run(port.attempt(warm, 0.0))
    proxy.replies.swallow()
    proxy.requests.forget()
    with pytest.raises(BackendUnavailable):
        run(port.attempt(wanted, 0.0))
    assert proxy.requests.seen(wanted.id[:8].encode()), "it was sent, and done"
    proxy.heal()
    granted: list[Granted] = []

    def asked() -> bool:
        try:
            answer = run(port.attempt(wanted, 0.0))
        except BackendUnavailable:
            return False
        granted.append(answer)  # type: ignore[arg-type]  # asserted below
        return True

    eventually(asked, "an answer")
    assert isinstance(granted[0], Granted)
    (node,) = children(beside, f"/{path}/t/x")
    assert beside.exists(f"/{path}/t/x/{node}").czxid == granted[0].raw
    assert run(port.release(wanted))
    assert children(beside, f"/{path}/t/x") == []
    run(port.release(warm))
    run(port.close())


@pytest.mark.slow
def test_a_reply_about_several_that_was_lost_leaves_one_node_each(
    proxy: FaultProxy, path: str, beside: KazooClient
) -> None:
    port = engine(through(proxy, path, 8)).blocking(ThreadRuntime())
    warm, several = [claim("x"), claim("y")], [claim("x"), claim("y")]
    assert isinstance(run(port.attempt_all(warm)), list)
    assert run(port.release_all(warm)) == [True, True]
    proxy.replies.swallow()
    with pytest.raises(BackendUnavailable):
        run(port.attempt_all(several))
    proxy.heal()
    granted: list[Granted] = []

    def asked() -> bool:
        try:
            granted[:] = run(port.attempt_all(several))  # type: ignore[arg-type]  # asserted below
        except BackendUnavailable:
            return False
        return True

    eventually(asked, "an answer")
    for each, name in zip(granted, ("x", "y"), strict=True):
        (node,) = children(beside, f"/{path}/t/{name}")
        assert beside.exists(f"/{path}/t/{name}/{node}").czxid == each.raw
    proxy.replies.swallow()
    with pytest.raises(BackendUnavailable):
        run(port.release_all(several))
    proxy.heal()

    def released() -> bool:
        try:
            return run(port.release_all(several)) == [False, False]  # the first one was done
        except BackendUnavailable:
            return False

    eventually(released, "an answer")
    assert [children(beside, f"/{path}/t/{name}") for name in ("x", "y")] == [[], []]
    run(port.close())


def test_a_claim_that_got_no_answer_is_withdrawn_all_the_same(
    proxy: FaultProxy, path: str, beside: KazooClient
) -> None:
    port = engine(through(proxy, path, 8)).blocking(ThreadRuntime())
    warm, wanted = claim("warm"), claim()
    run(port.attempt(warm, 0.0))
    run(port.attempt(claim("x"), 0.0))  # its node is there
    (before,) = children(beside, f"/{path}/t/x")
    proxy.replies.swallow()
    with pytest.raises(BackendUnavailable):
        run(port.attempt(wanted, 0.0))
    proxy.heal()

    def withdrawn() -> bool:
        try:
            return not run(port.release(wanted, outcome_unknown=True))
        except BackendUnavailable:
            return False

    eventually(withdrawn, "withdrawn")
    assert children(beside, f"/{path}/t/x") == [before]
    run(port.close())


def test_who_waits_when_its_session_ends_stands_in_line_again(
    proxy: FaultProxy, path: str, server: ZooKeeperServer
) -> None:
    async def story() -> None:
        async with (
            aio.connect(through(proxy, path)) as locks,
            aio.connect(f"{server.url}/{path}") as others,
        ):
            async with others.lock("x"):
                waiter = asyncio.create_task(locks.lock("x").acquire(timeout=PATIENCE))
                while not (await others.info("x")).waiters:  # noqa: ASYNC110  # no event for it
                    await asyncio.sleep(0.01)
                session = locks._client.backend.session  # type: ignore[attr-defined]
                epoch = session.epoch
                _end_session(session._client, server)
                while session.epoch == epoch or not (await others.info("x")).waiters:  # noqa: ASYNC110  # as above
                    await asyncio.sleep(0.01)
            lease = await waiter
            assert lease is not None
            assert lease.held

    asyncio.run(story())


@pytest.mark.slow
def test_a_restarted_ensemble_still_knows_who_holds() -> None:
    """All of its servers are gone at once."""
    with ZooKeeperEnsemble() as ensemble:
        url = f"{ensemble.url}?session_timeout=20"
        with locknut.connect(url) as locks, locknut.connect(url) as others:
            with locks.lock("x") as lease:
                for each in ensemble.servers:
                    each.kill()
                eventually(lambda: lease.state is State.AT_RISK, "noticed")
                ensemble.wait_until_whole()
                eventually(lambda: lease.state is State.HELD and _renewed(lease), "held again")
                assert others.lock("x").acquire(timeout=0) is None
            with others.lock("x", timeout=PATIENCE) as again:
                assert again.fence > lease.fence


@pytest.mark.slow
def test_a_restarted_server_still_knows_who_holds() -> None:
    with ZooKeeperServer() as server, locknut.connect(f"{server.url}?session_timeout=20") as locks:
        with locks.lock("x") as lease:
            server.restart()
            eventually(lambda: lease.state is State.HELD and _renewed(lease), "held again")
            with locknut.connect(server.url) as other:
                assert other.lock("x").acquire(timeout=0) is None
        with locks.lock("x", timeout=PATIENCE) as again:
            assert again.fence > lease.fence


def _renewed(lease: locknut.Lease) -> bool:
    try:
        lease.renew()
    except locknut.BackendError:
        return False
    return True


def test_the_leader_is_killed_and_nothing_is_lost(zookeeper_ensemble: ZooKeeperEnsemble) -> None:
    path = root()
    url = f"{zookeeper_ensemble.url}/{path}?session_timeout=15"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        with locks.lock("x") as lease:
            assert others.lock("x").acquire(timeout=0) is None
            zookeeper_ensemble.leader.kill()
            eventually(lambda: _renewed(lease), "renewed by the new leader")
            assert lease.held
        with others.lock("x", timeout=PATIENCE) as next_one:
            assert next_one.fence > lease.fence
    zookeeper_ensemble.wait_until_whole()


@pytest.mark.slow
def test_a_stopped_follower_is_left_for_another_server(
    zookeeper_ensemble: ZooKeeperEnsemble,
) -> None:
    path = root()
    stopped = zookeeper_ensemble.followers[0]
    others = [each for each in zookeeper_ensemble.servers if each is not stopped]
    url = f"{stopped.url}/{path}?session_timeout=8"
    elsewhere = f"zookeeper://{','.join(each.address for each in others)}/{path}"
    with locknut.connect(url) as locks, locknut.connect(elsewhere) as watchers:
        session = locks._client.backend.session  # type: ignore[attr-defined]
        lease = locks.lock("x").acquire()
        assert lease is not None
        session._client.set_hosts(",".join(each.address for each in others))
        stopped.stop()
        try:
            eventually(lambda: not session.connected, "noticed")
            eventually(lambda: session.connected, "at another server")
            eventually(lambda: not lease.held or _renewed(lease), "renewed, or lost by the clock")
            if lease.held:
                assert watchers.lock("x").acquire(timeout=0) is None
                lease.release()
        finally:
            stopped.cont()
    zookeeper_ensemble.wait_until_whole()


@pytest.mark.slow
def test_a_killed_process_is_gone_with_its_session_and_a_closed_one_at_once(
    zookeeper_server: ZooKeeperServer, path: str
) -> None:
    url = f"{zookeeper_server.url}/{path}?session_timeout=5"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with locknut.connect(url) as locks:
        command = [sys.executable, "-c", HOLDER, url]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            assert locks.lock("x").acquire(timeout=0) is None
            process.send_signal(signals.SIGKILL)
            assert locks.lock("x").acquire(timeout=1) is None, "its session lives on"
            with locks.lock("x", timeout=PATIENCE):
                pass
        with locknut.connect(url) as closing:
            closing.lock("x").acquire()
            assert locks.lock("x").acquire(timeout=0) is None
        with locks.lock("x", timeout=0):
            pass


def test_a_stopped_process_wakes_up_without_its_lock(
    zookeeper_server: ZooKeeperServer, path: str
) -> None:
    """By its own clock, before anybody could tell it."""
    url = f"{zookeeper_server.url}/{path}?session_timeout=2"
    program = (
        "import sys, locknut\n"
        "locks = locknut.connect(sys.argv[1])\n"
        "lease = locks.lock('x').acquire()\n"
        "print('held', flush=True)\n"
        "while lease.held: pass\n"
        "print('lost', flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, url]
    with (
        locknut.connect(url) as locks,
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.send_signal(signals.SIGSTOP)
        with locks.lock("x", timeout=PATIENCE):
            process.send_signal(signals.SIGCONT)
            assert process.stdout.readline() == b"lost\n"


def test_a_server_that_is_not_there_is_said_so() -> None:
    with (
        locknut.connect("zookeeper://user:secret@127.0.0.1:1/x?session_timeout=1") as locks,
        pytest.raises(BackendUnavailable, match=r"127\.0\.0\.1:1/x") as caught,
    ):
        locks.lock("x").acquire(timeout=0.2)
    assert "secret" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_of_kazoo_is_replaced(zookeeper_server: ZooKeeperServer, path: str) -> None:
    with locknut.connect(f"{zookeeper_server.url}/{path}?session_timeout=2") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        connection = locks._client.backend.session._client._connection  # type: ignore[attr-defined]
        connection._read_socket = lambda _: 1 / 0
        assert lease.lost.wait(PATIENCE)
        with locks.lock("x", timeout=PATIENCE) as again:
            assert again.fence > lease.fence


@pytest.mark.filterwarnings("ignore:a locknut.aio.Locks was dropped:ResourceWarning")
def test_a_closed_loop_is_survived_and_what_is_let_go_ends(
    zookeeper_server: ZooKeeperServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody closed it: kazoo's thread rings into a loop that is no more, and then it ends."""
    monkeypatch.setattr("locknut.core.keeper.IDLE", 0.1)
    url = f"{zookeeper_server.url}/{path}"

    async def story() -> aio.Locks:
        locks = aio.connect(url)
        assert await locks.lock("x").acquire()
        waiter = asyncio.create_task(locks.lock("x").acquire())
        await asyncio.sleep(0.05)
        assert not waiter.done()  # cancelled with the loop
        return locks

    left = asyncio.run(story())
    session = left._client.backend.session  # type: ignore[attr-defined]
    with locknut.connect(url) as others:
        session._ring_all()
        session.notify(None, Renewal.UNKNOWN)
        client = weakref.ref(left._client)
        del left
        eventually(lambda: gc.collect() and client() is None, "collected, once its keeper rests")
        eventually(lambda: session.closed, "and so the session ends")
        with others.lock("x", timeout=PATIENCE):
            pass


@pytest.mark.filterwarnings(
    "error::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_dropped_locks_hangs_up_though_warnings_are_errors(
    zookeeper_server: ZooKeeperServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.core.keeper.IDLE", 0.1)

    async def story() -> Session:
        locks = aio.connect(f"{zookeeper_server.url}/{path}")
        async with locks.lock("x"):
            pass
        return locks._client.backend.session  # type: ignore[attr-defined, no-any-return]

    session = asyncio.run(story())
    eventually(lambda: gc.collect() >= 0 and session.closed, "the session ends")


def test_a_second_client_remembers_how_the_first_was_received(
    zookeeper_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo gives up after many tries, and another client goes on; until that one has come to a
    server, the reason is what the one before it met.
    """
    backend = engine(f"{zookeeper_server.url}/app").blocking(ThreadRuntime())
    session = backend.session
    monkeypatch.setattr(SharedKazooClient, "start_async", lambda _: None)
    session._start()
    session._client._connection.turned_away = True
    monkeypatch.setattr(SharedKazooClient, "ended", True)
    session._start()
    assert session.turned_away


@pytest.mark.parametrize(
    ("error", "came"),
    [(BrokenPipeError(32, "Broken pipe"), True), (ConnectionRefusedError(111, "refused"), False)],
)
def test_a_server_that_hangs_up_before_we_are_connected_turns_us_away(
    zookeeper_server: ZooKeeperServer, error: OSError, came: bool
) -> None:
    """Linux tells of it as a broken pipe, while it connects."""
    backend = engine(f"{zookeeper_server.url}/app").blocking(ThreadRuntime())
    client = SharedKazooClient(backend.session.settings, now)

    def refuse(**_: object) -> None:
        raise error

    client.handler.create_connection = refuse
    with pytest.raises(ConnectionDropped):
        client._connection._connect("localhost", "127.0.0.1", 2181)
    assert client.turned_away is came


def test_a_connection_that_is_closed_amid_a_send_is_no_error_of_the_sender() -> None:
    """What did not fit into the socket is left to a thread that has just ended. The sender learns
    from its answers that there is no connection.
    """
    client = SharedKazooClient(from_url(parse("zookeeper://127.0.0.1:1")), now)
    connection = client._connection
    connection._flowing = True
    connection._outgoing = bytearray(b"more than fits")
    connection._write_sock = None  # as `close` leaves it
    answers = Batch([Exists("/x", None)], Proof(lambda *_: None), lambda _: None, now)
    assert connection.send([Exists("/x", None)], answers)
