"""A permit is a place in the line first and a lease then: what may happen in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

import locknut
from locknut import aio
from locknut.backends.zookeeper import node_swaps
from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.backends.zookeeper.claim_node import ClaimState
from locknut.core.values import Busy, Claim, Granted, Mode
from locknut.errors import BackendUnavailable
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, ThreadSignal, run
from locknut.testing.proxy import FaultProxy
from tests.backends.zookeeper.conftest import (
    PATIENCE,
    Traffic,
    children,
    claim,
    engine,
    eventually,
    root,
)
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]


@pytest.fixture
def path() -> str:
    return root()


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[FaultProxy]:
    with FaultProxy((server.host, server.port)) as made:
        yield made


@pytest.fixture
def port(proxy: FaultProxy, path: str) -> Iterator[ZooKeeperBackend]:
    url = f"zookeeper://127.0.0.1:{proxy.port}/{path}?session_timeout=8"
    made: Any = engine(url).blocking(ThreadRuntime())
    warm = permit()
    assert isinstance(asked_until_answered(made, warm), Granted)
    release_in_doubt(made, warm)
    yield made
    run(made.close())


def permit(permits: int = 1) -> Claim:
    return claim(mode=Mode.PERMIT, permits=permits)


def standing(client: KazooClient, path: str) -> tuple[int, int]:
    """How many wait, and how many have a lease."""
    return (
        len(children(client, f"/{path}/t/x/locks")),
        len(children(client, f"/{path}/t/x/leases")),
    )


def asked_until_answered(port: ZooKeeperBackend, wanted: Claim) -> Any:
    answers: list[Any] = []

    def asked() -> bool:
        try:
            answers.append(run(port.attempt(wanted, 0.0)))
        except BackendUnavailable:
            return False
        return True

    eventually(asked, "an answer")
    return answers[-1]


def release_in_doubt(port: ZooKeeperBackend, unwanted: Claim) -> None:
    """Until it is answered: an earlier answer that was lost may have been the one that counts."""

    def released() -> bool:
        try:
            run(port.release(unwanted, outcome_unknown=True))
        except BackendUnavailable:
            return False
        return True

    eventually(released, "released")


def test_what_it_costs(url: str) -> None:
    with locknut.connect(url) as locks:
        with locks.semaphore("x", 2):
            pass
        traffic = Traffic(locks._client.backend.session)  # type: ignore[attr-defined]
        for _ in range(10):
            with locks.semaphore("x", 2):
                pass
        stand, enter, leave = ["Create2", "GetChildren", "GetChildren"], ["Transaction"], ["Delete"]
        # Once in between the server may have removed nodes that were empty.
        assert traffic.batches[-6:] == [stand, enter, leave] * 2


@pytest.mark.parametrize("gives_up", [False, True])
def test_an_answer_is_lost_on_the_way_from_the_line_to_the_lease(
    port: ZooKeeperBackend,
    proxy: FaultProxy,
    path: str,
    beside: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
    gives_up: bool,
) -> None:
    # The servers soon remove an empty node of leases. Then the way in begins with an answer that
    # says so, which would be lost every time: another permit keeps the node.
    kept = permit(2)
    assert isinstance(asked_until_answered(port, kept), Granted)
    enter = node_swaps.enter

    async def unheard(*given: Any) -> bool:
        proxy.replies.swallow()
        return await enter(*given)

    def entered(wanted: Claim) -> bool:
        """Whether it has its lease, of which nobody told it. On a machine that stands still a
        command before that may take too long, or the connection may end first.
        """
        with monkeypatch.context() as patched, ThreadPoolExecutor(1) as another:
            patched.setattr(node_swaps, "enter", unheard)
            asked = another.submit(lambda: run(port.attempt(wanted, 0.0)))
            # A cut before the server has read the request would lose that, too.
            eventually(lambda: asked.done() or standing(beside, path) == (0, 2), "it was done")
            done = standing(beside, path) == (0, 2)
            proxy.heal()
            with pytest.raises(BackendUnavailable):
                asked.result(PATIENCE)
        return done

    give_up = now() + PATIENCE
    while not entered(wanted := permit(2)):
        release_in_doubt(port, wanted)
        assert now() < give_up, "it was never done"
    if not gives_up:
        granted = asked_until_answered(port, wanted)
        assert isinstance(granted, Granted)
        assert asked_until_answered(port, wanted).raw == granted.raw
        assert standing(beside, path) == (0, 2)
    release_in_doubt(port, wanted)
    assert standing(beside, path) == (0, 1)
    release_in_doubt(port, kept)


@pytest.mark.parametrize("gives_up", [False, True])
def test_who_is_interrupted_on_that_way_leaves_no_ghost(
    port: ZooKeeperBackend,
    path: str,
    beside: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
    gives_up: bool,
) -> None:
    wanted = permit()
    stand = ClaimState.stand

    def interrupted(place: ClaimState, name: str, raw: int) -> None:
        if "lease-" in name:
            raise KeyboardInterrupt
        stand(place, name, raw)

    with monkeypatch.context() as patched:
        patched.setattr(ClaimState, "stand", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(port.attempt(wanted, 0.0))
    assert standing(beside, path) == (0, 1)
    if not gives_up:
        assert isinstance(run(port.attempt(wanted, 0.0)), Granted)
        assert standing(beside, path) == (0, 1)
    assert run(port.release(wanted))
    assert standing(beside, path) == (0, 0)


def test_who_finds_its_place_removed_on_that_way_stands_in_line_again(
    port: ZooKeeperBackend, path: str, beside: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = permit()
    enter = node_swaps.enter
    removed: list[str] = []

    async def late(backend: ZooKeeperBackend, place: ClaimState) -> bool:
        if not removed:
            removed.append(place.path)
            beside.delete(place.path)
        return await enter(backend, place)

    monkeypatch.setattr(node_swaps, "enter", late)
    assert isinstance(run(port.attempt(wanted, 0.0)), Granted)
    assert removed
    assert standing(beside, path) == (0, 1)
    assert run(port.release(wanted))


def test_the_servers_remove_the_leases_node_and_it_is_made_again(
    port: ZooKeeperBackend, path: str, beside: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = node_swaps.enter

    async def late(backend: ZooKeeperBackend, place: ClaimState) -> bool:
        with suppress(NoNodeError):
            beside.delete(f"/{path}/t/x/leases")
        return await enter(backend, place)

    held = permit()
    run(port.attempt(held, 0.0))  # the node is there, whatever the server has tidied up
    run(port.release(held))
    wanted = permit()
    monkeypatch.setattr(node_swaps, "enter", late)
    assert isinstance(run(port.attempt(wanted, 0.0)), Granted)
    assert run(port.release(wanted))


def test_breaking_one_permit_lets_the_first_waiter_in(url: str) -> None:
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        one, two = (locks.semaphore("x", 2).acquire() for _ in range(2))
        assert one is not None
        assert two is not None
        got: list[Any] = []
        waiter = threading.Thread(
            target=lambda: got.append(others.semaphore("x", 2).acquire(timeout=PATIENCE))
        )
        waiter.start()
        eventually(lambda: len(locks.info("x").waiters) == 1, "in line")
        found = locks.info("x")
        assert [each.fence for each in found.holders] == [one.fence, two.fence]
        assert {each.mode for each in (*found.holders, *found.waiters)} == {Mode.PERMIT}
        assert others.force_release("x", fence=one.fence)
        waiter.join(PATIENCE)
        assert got[0] is not None
        assert one.lost.wait(PATIENCE)
        assert two.held
        assert got[0].fence > two.fence


def test_a_detached_permit_is_counted_taken_over_and_runs_out(url: str) -> None:
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        lease = locks.semaphore("x", 1).acquire()
        assert lease is not None
        text = lease.detach(ttl=5)
        assert others.semaphore("x", 1).acquire(blocking=False) is None
        taken = others.attach(text)
        assert taken.fence == lease.fence
        again = taken.detach(ttl=1)
        with locks.semaphore("x", 1, timeout=PATIENCE):
            pass
        with pytest.raises(locknut.LeaseLost):
            others.attach(again)


def test_a_session_that_ends_takes_the_waiter_and_the_holder_with_it(
    path: str, server: ZooKeeperServer, beside: KazooClient
) -> None:
    """Both stand in line again, in their new session, and nothing of the old one is left."""
    one: Any = engine(f"{server.url}/{path}").blocking(ThreadRuntime())
    other: Any = engine(f"{server.url}/{path}").blocking(ThreadRuntime())
    held, waiter = permit(), permit()
    assert isinstance(run(other.attempt(held, 0.0)), Granted)
    assert isinstance(run(one.attempt(waiter, 0.0)), Busy)
    for port in (other, one):
        _end_session(port, server)
    with one.watch(waiter, ThreadSignal) as rung:
        give_up = now() + PATIENCE
        while not isinstance(asked_until_answered(one, waiter), Granted):
            assert now() < give_up
            run(rung.wait(now() + 0.1))
    assert standing(beside, path) == (0, 1)
    assert not run(other.release(held))
    assert run(one.release(waiter))
    assert standing(beside, path) == (0, 0)
    run(one.close())
    run(other.close())


def _end_session(port: Any, server: ZooKeeperServer) -> None:
    epoch = port.session.epoch
    double = KazooClient(server.address, client_id=port.session._client.client_id)
    double.start(PATIENCE)
    double.stop()
    double.close()
    eventually(lambda: port.session.epoch > epoch, "told")


def test_cancelled_at_any_moment_nothing_is_left(anywhere: str, beside: KazooClient) -> None:
    path = f"/{anywhere.rpartition('/')[2]}/locknut/x"

    async def story() -> None:
        async with aio.connect(anywhere) as locks, aio.connect(anywhere) as others:
            async with locks.semaphore("x", 1):
                pass
            for step in range(60):
                held = await others.semaphore("x", 1).acquire() if step % 2 else None
                task = asyncio.create_task(locks.semaphore("x", 1).acquire())
                for _ in range(step // 4):
                    await asyncio.sleep(0)
                if step % 3 == 0:
                    await asyncio.sleep(0.0005 * (step % 7))
                task.cancel()
                try:
                    lease = await task
                    assert lease is not None
                    await lease.release()
                except asyncio.CancelledError:
                    pass
                if held is not None:
                    await held.release()
                async with others.semaphore("x", 1, timeout=PATIENCE):
                    pass

    asyncio.run(story())
    assert children(beside, f"{path}/locks") == []
    assert children(beside, f"{path}/leases") == []
