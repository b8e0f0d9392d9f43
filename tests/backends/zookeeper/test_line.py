"""What it costs to stand in line: waits, watches, and who is woken."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from kazoo.client import KazooClient

import locknut
from locknut import aio
from locknut.backends.zookeeper import many_keys, recipe
from locknut.core.values import Busy, Granted, Mode, Renewal
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, ThreadSignal, run
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

pytestmark = pytest.mark.zookeeper


def test_an_acquire_waits_once_and_so_does_a_release(url: str) -> None:
    with locknut.connect(url) as locks:
        with locks.lock("x"):
            pass  # the connection, and the lock's node
        traffic = Traffic(locks._client.backend.session)  # type: ignore[attr-defined]
        for _ in range(10):
            with locks.lock("x"):
                pass
        # Once in between the server may have removed the lock's node, which was empty.
        assert traffic.batches[-4:] == [["Create2", "GetChildren"], ["Delete"]] * 2


def test_the_same_on_a_loop(url: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks:
            async with locks.lock("x"):
                pass
            traffic = Traffic(locks._client.backend.session)  # type: ignore[attr-defined]
            for _ in range(10):
                async with locks.lock("x"), locks.lock("x"):
                    pass
            assert traffic.batches[-4:] == [["Create2", "GetChildren"], ["Delete"]] * 2

    asyncio.run(story())


def test_many_renewals_are_few_writes(url: str) -> None:
    """One every eighth of a session is enough to prove its life."""
    port = engine(url).blocking(ThreadRuntime())
    held = [claim(f"x{number}") for number in range(20)]
    for each in held:
        assert isinstance(run(port.attempt(each, 0.0)), Granted)
    port.session.proof._written = float("-inf")
    traffic = Traffic(port.session)
    for each in held:
        (renewed,) = run(port.renew([each]))
        assert not isinstance(renewed, Renewal) or renewed is Renewal.HELD
    one = ["Exists", "GetData"]  # is it there, and if not, has somebody left a note?
    assert traffic.batches == [["Transaction", *one], *[["Sync", *one]] * 19]
    assert run(port.release_all(held)) == [True] * 20
    run(port.close())


def test_several_free_locks_are_one_wait_as_well(url: str) -> None:
    with locknut.connect(url) as locks:
        names = ("a", "b", "c")
        with locks.all(*names):
            pass
        traffic = Traffic(locks._client.backend.session)  # type: ignore[attr-defined]
        with locks.all(*names):
            pass
        assert traffic.batches == [["Create2", "GetChildren"] * 3, ["Delete"] * 3]


def test_several_of_which_one_is_held_leave_nobody_behind(url: str, kazoo: KazooClient) -> None:
    """And whoever came behind them meanwhile is not kept."""
    port, other = engine(url).blocking(ThreadRuntime()), engine(url).blocking(ThreadRuntime())
    holder, waiter = claim("b"), claim("a")
    run(other.attempt(holder, 0.0))
    several = [claim("a"), claim("b")]
    release_all = many_keys.release_all
    behind: list[Any] = []

    async def later(*given: Any) -> list[bool]:
        behind.append(await other.attempt(waiter, 0.0))  # ours stands before it
        return await release_all(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(many_keys, "release_all", later)
        assert isinstance(run(port.attempt_all(several)), Busy)
    assert isinstance(behind[0], Busy)
    with other.watch(waiter, ThreadSignal) as rung:
        while not isinstance(run(other.attempt(waiter, 0.0)), Granted):
            assert run(rung.wait(now() + PATIENCE))
    path = f"/{url.rpartition('/')[2]}/t"
    assert [len(children(kazoo, f"{path}/{name}")) for name in ("a", "b")] == [1, 1]
    for each in (holder, waiter):
        assert run(other.release(each))
    run(port.close())
    run(other.close())


@pytest.mark.slow
def test_a_thousand_waiters_and_a_release_wakes_one(anywhere: str, server: ZooKeeperServer) -> None:
    eventually(lambda: server.watches() == 0, "those of other tests are gone")
    port, other = (
        engine(anywhere).blocking(ThreadRuntime()),
        engine(anywhere).blocking(ThreadRuntime()),
    )
    holder = claim()
    waiters = [claim() for _ in range(1000)]
    signals = [ThreadSignal() for _ in waiters]
    run(other.attempt(holder, 0.0))
    for waiter, signal in zip(waiters, signals, strict=True):
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
        port.watch(waiter, lambda s=signal: s).__enter__()  # type: ignore[misc]
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    eventually(lambda: server.watches() == 1000, "each has its own")
    traffic = Traffic(port.session)
    assert run(other.release(holder))
    assert run(signals[0].wait(_soon()))
    assert isinstance(run(port.attempt(waiters[0], 0.0)), Granted)
    assert traffic.batches == [["GetChildren"]]
    assert [rung for rung in signals if run(rung.wait(0.0))] == []
    # One in the middle gives up: the one behind it looks, and watches the next before.
    run(port.release(waiters[500]))
    assert run(signals[501].wait(_soon()))
    assert isinstance(run(port.attempt(waiters[501], 0.0)), Busy)
    assert [rung for rung in signals if run(rung.wait(0.0))] == []
    _assert_that_looking_compares_each_once(other, holder.key)
    run(port.close())
    run(other.close())
    eventually(lambda: server.watches() == 0, "no watch is left behind")


def _assert_that_looking_compares_each_once(port: Any, key: str) -> None:
    compared: list[None] = []
    distance = recipe._distance

    def counted(*given: Any) -> int:
        compared.append(None)
        return distance(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recipe, "_distance", counted)
        (info,) = run(port.inspect(key))
    assert len(info.waiters) == 998
    assert len(compared) < 2000


def _soon() -> float:
    return ThreadSignal()._now() + PATIENCE


def test_a_watch_is_never_left_on_what_is_not_there(
    url: str, zookeeper_server: ZooKeeperServer
) -> None:
    """The one before goes between the listing and the watch: the answer to the watch rings."""
    eventually(lambda: zookeeper_server.watches() == 0, "those of other tests are gone")
    port, other = engine(url).blocking(ThreadRuntime()), engine(url).blocking(ThreadRuntime())
    holder, waiter = claim(), claim()
    run(other.attempt(holder, 0.0))
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    run(other.release(holder))
    with port.watch(waiter, ThreadSignal) as rung:
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
        assert run(rung.wait(now() + PATIENCE))
        assert isinstance(run(port.attempt(waiter, 0.0)), Granted)
    assert zookeeper_server.watches() == 0
    run(port.close())
    run(other.close())


def test_waiting_for_permits_only_the_first_watches_them_all(url: str) -> None:
    port, other = engine(url).blocking(ThreadRuntime()), engine(url).blocking(ThreadRuntime())
    held = [claim(mode=Mode.PERMIT, permits=3) for _ in range(3)]
    waiters = [claim(mode=Mode.PERMIT, permits=3) for _ in range(20)]
    signals = [ThreadSignal() for _ in waiters]
    for each in held:
        assert isinstance(run(other.attempt(each, 0.0)), Granted)
    for waiter, signal in zip(waiters, signals, strict=True):
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
        port.watch(waiter, lambda s=signal: s).__enter__()  # type: ignore[misc]
        assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    for turn, each in enumerate((held[1], held[0], held[2])):  # in any order
        run(other.release(each))
        # The first waiter is woken, enters, and wakes the second, which is the first now.
        assert run(signals[turn].wait(_soon()))
        assert isinstance(_asked(port, waiters[turn]), Granted)
        assert run(signals[turn + 1].wait(_soon()))
        assert isinstance(run(port.attempt(waiters[turn + 1], 0.0)), Busy)
        assert not any(run(rung.wait(0.0)) for rung in signals[turn + 2 :])
    run(port.close())
    run(other.close())


def _asked(port: Any, waiter: Any) -> Any:
    """A ring may be for an arrival: then it is asked again."""
    answer = run(port.attempt(waiter, 0.0))
    give_up = time.monotonic() + PATIENCE
    while isinstance(answer, Busy) and time.monotonic() < give_up:
        time.sleep(0.01)
        answer = run(port.attempt(waiter, 0.0))
    return answer


def test_a_waiter_whose_node_was_deleted_stands_in_line_again(url: str, kazoo: KazooClient) -> None:
    path = f"/{url.rpartition('/')[2]}/locknut/x"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        woken: list[Any] = []
        with others.lock("x"):
            (holder,) = kazoo.get_children(path)
            waiter = threading.Thread(
                target=lambda: woken.append(locks.lock("x").acquire(timeout=PATIENCE))
            )
            waiter.start()
            eventually(lambda: len(kazoo.get_children(path)) == 2, "in line")
            (node,) = set(kazoo.get_children(path)) - {holder}
            kazoo.delete(f"{path}/{node}")
        waiter.join(PATIENCE)
        assert woken[0] is not None


def test_numbers_that_wrap_do_not_stop_the_line(url: str, kazoo: KazooClient) -> None:
    """The server's own counter cannot be moved: so the first one has the last number before."""
    path = f"/{url.rpartition('/')[2]}/t/x"
    kazoo.create(f"{path}/_c_x-lock-2147483647", ephemeral=True, makepath=True)
    port = engine(url).blocking(ThreadRuntime())
    first = claim()
    assert isinstance(run(port.attempt(first, 0.0)), Granted), "0 is far behind, which is before"
    run(port.close())


@pytest.mark.slow
def test_a_detached_hold_that_nobody_takes_is_removed_by_waiters(url: str) -> None:
    with locknut.connect(url) as web, locknut.connect(url) as others:
        with others.lock("warm"):
            pass
        lease = web.lock("x").acquire()
        assert lease is not None
        text = lease.detach(ttl=3.0)
        web.close()  # it does not go with its session
        assert others.lock("x").acquire(timeout=0) is None
        with others.lock("x", timeout=PATIENCE):
            pass
        with pytest.raises(locknut.LeaseLost):
            others.attach(text)


@pytest.mark.slow
def test_a_hold_is_detached_for_longer_than_any_session(url: str) -> None:
    """No session has anything to do with it."""
    with locknut.connect(f"{url}?session_timeout=2") as web, locknut.connect(url) as worker:
        lease = web.lock("x").acquire()
        assert lease is not None
        text = lease.detach(ttl=60)
        web.close()
        waiting = now()
        assert worker.lock("x").acquire(timeout=3) is None
        assert now() - waiting >= 3
        with worker.attach(text) as again:
            assert again.fence == lease.fence
        with pytest.raises(locknut.ConfigurationError, match="ttl"):
            worker.lock("x", ttl=60)


@pytest.mark.slow
def test_empty_lock_nodes_are_the_servers_to_remove(url: str, kazoo: KazooClient) -> None:
    """Container nodes, of which this server gets rid every second; then they are made again."""
    space = f"/{url.rpartition('/')[2]}/locknut"
    with locknut.connect(url) as locks:
        fences = []
        for _ in range(2):
            with locks.lock("x") as lease, locks.semaphore("s", 2):
                fences.append(lease.fence)
            eventually(lambda: not kazoo.exists(space), "removed")
    assert fences == sorted(set(fences))


def test_cancelled_at_any_moment_nothing_is_left_in_line(
    anywhere: str, beside: KazooClient
) -> None:
    path = f"/{anywhere.rpartition('/')[2]}/locknut/x"

    async def story() -> None:
        async with aio.connect(anywhere) as locks, aio.connect(anywhere) as others:
            async with locks.lock("x"):
                pass
            for step in range(60):
                held = await others.lock("x").acquire() if step % 2 else None
                task = asyncio.create_task(locks.lock("x").acquire())
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
                async with others.lock("x", timeout=PATIENCE):
                    pass

    asyncio.run(story())
    assert children(beside, path) == []


def test_the_roots_and_namespaces_keep_locks_apart(zookeeper_server: ZooKeeperServer) -> None:
    one, two = root(), root()
    with (
        locknut.connect(f"{zookeeper_server.url}/{one}/deep/er") as first,
        locknut.connect(f"{zookeeper_server.url}/{two}") as second,
        locknut.connect(f"{zookeeper_server.url}?namespace=zookeeper") as third,
        first.lock("x"),
        second.lock("x", timeout=0),
        third.lock("x", timeout=0),
    ):
        assert [each.name for each in first.list()] == ["x"]
        assert [each.name for each in third.list()] == ["x"]
