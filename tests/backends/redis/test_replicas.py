"""`wait_replicas`: what too few replicas have got does not count."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.redis.engine import RedisEngine
from locknut.core.values import Busy, Capability, Granted, Mode, Renewal, State
from locknut.drivers.redis import settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, LeaseLost
from locknut.runtimes.clock import now
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine, parse
from tests.backends.redis.conftest import PATIENCE, claim, eventually
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
COLOURS = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


class Pair:
    """A master and the replica that has to confirm."""

    def __init__(self, master: RedisServer, replica: RedisServer):
        self.master, self.replica = master, replica
        self.url = f"{master.url}?wait_replicas=1&wait_timeout=0.2&socket_timeout=20"
        """For a replica that does not answer; one that does may need longer on a busy machine, and
        so may the master."""
        self.patient_url = f"{master.url}?wait_replicas=1&wait_timeout=20&socket_timeout=40"

    def whole(self) -> None:
        self.replica.cont()
        self.master.wait_for_replicas(1)

    def port(self, colour: str, *, patient: bool = False) -> Any:
        found = open_engine(self.patient_url if patient else self.url)[0]
        assert isinstance(found, RedisEngine)
        return (
            found.blocking(ThreadRuntime())
            if colour == "blocking"
            else found.asyncio(LoopRuntime())
        )


@pytest.fixture(scope="module")
def running() -> Iterator[Pair]:
    with RedisServer() as master, RedisServer() as replica:
        replica.ask("REPLICAOF", master.host, master.port)
        yield Pair(master, replica)


@pytest.fixture
def pair(running: Pair) -> Iterator[Pair]:
    running.whole()
    running.master.flushall()
    yield running
    running.whole()


def play(colour: str, story: Any) -> None:
    run(story) if colour == "blocking" else asyncio.run(story)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("wait_replicas=-1", "wait_replicas"),
        ("wait_replicas=many", "wait_replicas"),
        ("wait_timeout=1", "needs wait_replicas"),
        ("wait_replicas=1&wait_timeout=1.5", "half of socket_timeout"),
        ("wait_replicas=1&wait_timeout=0", "wait_timeout"),
    ],
)
def test_what_is_refused(options: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        locknut.connect(f"redis://h?{options}")


def test_what_is_read() -> None:
    read = settings.read(parse("redis://h?wait_replicas=2&socket_timeout=1"))
    assert (read.replicas, read.replicas_limit) == (2, 0.5)
    assert settings.read(parse("redis://h?wait_replicas=1")).replicas_limit == 1.0


def test_replicated_is_not_declared() -> None:
    """They confirm; which of them is promoted is not theirs to say."""
    with locknut.connect("redis://h?wait_replicas=2") as locks:
        assert Capability.REPLICATED not in locks.capabilities


@COLOURS
def test_all_verbs_with_a_replica_that_confirms(pair: Pair, colour: str) -> None:
    async def story() -> None:
        port = pair.port(colour, patient=True)
        pair.master.script_flush()
        mine, more = claim(), [claim("y"), claim("z")]
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        assert isinstance(await port.attempt(claim(), 0.0), Busy)
        assert isinstance(await port.attempt_all(more), list)
        assert await port.renew([mine, *more]) == [Renewal.HELD] * 3
        after = claim()
        assert isinstance(await port.attach(mine, after), Granted)
        assert await port.renew([mine]) == [Renewal.LOST]
        assert await port.release(after)
        assert await port.release_all(more) == [True, True]
        await port.close()

    play(colour, story())


@COLOURS
def test_a_grant_that_is_not_confirmed_is_asked_for_again(pair: Pair, colour: str) -> None:
    """S7: a claim that was released is never asked for again, or a late release ends the new hold.
    So it stays at the master until its owner asks again, or gives it back for good.
    """

    async def story() -> None:
        port, patient = pair.port(colour), pair.port(colour, patient=True)
        mine, others = claim(), [claim("y"), claim("z")]
        pair.replica.stop()
        for ask in (port.attempt(mine, 0.0), port.attempt_all(others)):
            with pytest.raises(BackendUnavailable, match="not confirmed by 1 replica"):
                await ask
        before = [info.holders[0].raw for name in "xyz" for info in await port.inspect(f"t:{name}")]
        pair.whole()
        granted = await patient.attempt(mine, 0.0), *await patient.attempt_all(others)
        assert [each.raw for each in granted] == before
        assert await port.release_all([mine, *others]) == [True] * 3
        await port.close()
        await patient.close()

    play(colour, story())


@COLOURS
@pytest.mark.parametrize("names", [["x"], ["x", "y"]], ids=["one", "several"])
def test_a_late_release_does_not_end_what_was_granted_meanwhile(
    pair: Pair, colour: str, names: list[str]
) -> None:
    """Nothing is released while the claim is still wanted, so there is nothing that comes late."""
    calls = released(pair)
    pair.replica.stop()
    again = threading.Timer(0.5, pair.whole)
    again.start()
    url = f"{pair.master.url}?wait_replicas=1&wait_timeout=0.3"
    if colour == "blocking":
        with locknut.connect(url, namespace="t") as locks:
            lease = locks.all(*names).acquire(timeout=PATIENCE)
            assert lease
            assert released(pair) == calls, "a claim was released and asked for again"
            lease.release()
    else:

        async def story() -> None:
            async with aio.connect(url, namespace="t") as locks:
                lease = await locks.all(*names).acquire(timeout=PATIENCE)
                assert lease
                assert released(pair) == calls, "a claim was released and asked for again"
                await lease.release()

        asyncio.run(story())
    again.join()


def released(pair: Pair) -> int:
    """How often the master deleted a key: that is how a release ends an exclusive hold."""
    told = pair.master.info("commandstats").get("cmdstat_del", "calls=0,")
    return int(told.partition("calls=")[2].partition(",")[0])


@COLOURS
def test_a_detach_that_is_not_confirmed_fails(pair: Pair, colour: str) -> None:
    """Or the promoted replica would give the lock to somebody else long before its time."""

    async def story() -> None:
        port = pair.port(colour)
        mine = claim()
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        pair.replica.stop()
        with pytest.raises(BackendUnavailable, match="not confirmed"):
            await port.detach(mine, 600.0)
        pair.whole()
        patient = pair.port(colour, patient=True)
        assert await patient.detach(mine, 600.0)
        assert await port.release(mine)
        await port.close()
        await patient.close()

    play(colour, story())


def test_whose_detach_was_not_confirmed_has_no_lease_and_nothing_stays_held(pair: Pair) -> None:
    with locknut.connect(pair.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=30).acquire(timeout=PATIENCE)
        assert lease is not None
        pair.replica.stop()
        with pytest.raises(BackendUnavailable, match="not confirmed"):
            lease.detach(ttl=600)
        assert not lease.held
        eventually(lambda: not locks.info("x").locked, "nobody has the text, yet it is held")


@pytest.mark.slow
def test_an_attach_that_is_not_confirmed_leaves_the_hold_detached(pair: Pair) -> None:
    with (
        locknut.connect(pair.patient_url, namespace="t") as patient,
        locknut.connect(pair.url, namespace="t") as locks,
    ):
        lease = patient.lock("x", ttl=20).acquire(timeout=PATIENCE)
        assert lease is not None
        text = lease.detach(ttl=120)
        pair.replica.stop()
        with pytest.raises(BackendUnavailable, match="not confirmed"):
            locks.attach(text)
        pair.whole()
        eventually(lambda: 60 < ttl_left(locks) <= 120, "it is not detached as it was")
        again = patient.attach(text)
        assert again.fence == lease.fence
        with pytest.raises(LeaseLost):
            patient.attach(text)
        again.release()


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "owner": {"owner": "ann"},
    "read": {"mode": Mode.SHARED},
    "permit": {"mode": Mode.PERMIT, "permits": 2},
}


@COLOURS
@pytest.mark.parametrize("kind", KINDS)
def test_what_an_attach_took_over_is_put_back(pair: Pair, colour: str, kind: str) -> None:
    async def story() -> None:
        port, patient = pair.port(colour), pair.port(colour, patient=True)
        detached, given_up, after = (claim(**KINDS[kind]) for _ in range(3))
        first = await patient.attempt(detached, 0.0)
        assert await patient.detach(detached, 120.0)
        pair.replica.stop()
        with pytest.raises(BackendUnavailable, match="not confirmed"):
            await port.attach(detached, given_up)
        for _ in range(2):
            await port.undo_attach(given_up, detached._replace(ttl=120.0))
        (info,) = await port.inspect(detached.key)
        assert 60 < info.holders[0].ttl_left <= 120
        assert await port.renew([given_up]) == [Renewal.LOST]
        pair.whole()
        assert await patient.attach(detached, given_up) is None, "a late attach was not barred"
        assert await patient.attach(detached, after) == first
        await port.undo_attach(given_up, detached._replace(ttl=120.0))
        assert await patient.renew([after]) == [Renewal.HELD]
        assert await port.release(after)
        await port.close()
        await patient.close()

    play(colour, story())


def ttl_left(locks: locknut.Locks) -> float:
    (holder,) = locks.info("x").holders
    return holder.ttl_left or 0.0


@pytest.mark.usefixtures("patient_callers")
def test_the_caller_is_told(pair: Pair) -> None:
    """What it cannot give back in its own time, the keeper does: long before the ttl ends it."""
    pair.replica.stop()
    with locknut.connect(pair.url, namespace="t") as locks:
        with pytest.raises(BackendUnavailable, match="not confirmed"):
            locks.lock("x", ttl=10 * PATIENCE).acquire(timeout=0.5)
        eventually(lambda: not locks.info("x").locked, "nobody has it, yet it is held")


@pytest.mark.usefixtures("patient_callers")
def test_the_caller_is_told_on_a_loop(pair: Pair) -> None:
    async def story() -> None:
        async with aio.connect(pair.url, namespace="t") as locks:
            with pytest.raises(BackendUnavailable, match="not confirmed"):
                await locks.lock("x", ttl=10 * PATIENCE).acquire(timeout=0.5)
            async with asyncio.timeout(PATIENCE):
                while (await locks.info("x")).locked:  # noqa: ASYNC110  # the server has no event for it
                    await asyncio.sleep(0.01)

    pair.replica.stop()
    asyncio.run(story())


@pytest.mark.slow
def test_a_renewal_that_is_not_confirmed_does_not_extend(pair: Pair) -> None:
    with locknut.connect(pair.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=4).acquire(timeout=PATIENCE)
        assert lease is not None
        pair.replica.stop()
        with pytest.raises(BackendError, match="not confirmed"):
            lease.renew()
        assert lease.state is State.AT_RISK
        assert lease.lost.wait(PATIENCE)


@COLOURS
def test_a_pushed_grant_is_confirmed_before_it_is_given_out(pair: Pair, colour: str) -> None:
    """S19: the releaser made it, and asked no replica."""
    other = open_engine(pair.master.url)[0].blocking(ThreadRuntime())
    runtime: Any = ThreadRuntime if colour == "blocking" else LoopRuntime

    async def story() -> None:
        port = pair.port(colour)
        holder, waiter = claim(), claim()
        assert isinstance(run(other.attempt(holder, 0.0)), Granted)
        assert isinstance(await port.attempt(waiter, 0.0), Busy)
        with port.watch(waiter, runtime().signal) as rung:
            await port.attempt(waiter, 0.0)
            pair.replica.stop()
            assert run(other.release(holder))
            assert await rung.wait(now() + PATIENCE)
            with pytest.raises(BackendUnavailable, match="not confirmed"):
                await port.attempt(waiter, 0.0)
            pair.whole()
            patient = pair.port(colour, patient=True)
            assert isinstance(await patient.attempt(waiter, 0.0), Granted)
        assert await port.release(waiter)
        await port.close()
        await patient.close()

    play(colour, story())
    run(other.close())


@COLOURS
def test_a_master_that_became_a_replica_is_left(colour: str) -> None:
    """It says READONLY, and then that WAIT is not for replicas; its connections stay open."""

    async def story(master: RedisServer) -> None:
        made = open_engine(f"{master.url}?wait_replicas=1&wait_timeout=5&socket_timeout=10")[0]
        port: Any = (
            made.blocking(ThreadRuntime()) if colour == "blocking" else made.asyncio(LoopRuntime())
        )
        mine = claim()
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        master.ask("REPLICAOF", master.host, 1)
        assert await port.renew([mine]) == [Renewal.UNKNOWN]
        if colour == "blocking":
            assert not port._server._pool.idle
        else:
            assert port._server._slow_link.stream is None
        await port.close()

    with RedisServer() as master, RedisServer() as replica:
        replica.ask("REPLICAOF", master.host, master.port)
        master.wait_for_replicas(1)
        play(colour, story(master))


def test_waiting_for_replicas_holds_up_nobody_else(pair: Pair) -> None:
    async def story() -> None:
        slowly = "wait_replicas=1&wait_timeout=2&socket_timeout=20"
        port = open_engine(f"{pair.master.url}?{slowly}")[0].asyncio(LoopRuntime())
        await port.inspect("t:y")
        pair.replica.stop()
        before = waits(pair)
        slow = [asyncio.create_task(port.attempt(claim(f"x{each}"), 0.0)) for each in range(20)]
        await asyncio.sleep(0)
        await port.inspect("t:y")
        assert not any(each.done() for each in slow), "it waited for replicas too"
        for each in slow:
            with pytest.raises(BackendUnavailable):
                await each
        assert waits(pair) - before <= 3, "replicas were waited for one by one"
        await port.close()

    asyncio.run(story())


def waits(pair: Pair) -> int:
    told = pair.master.info("commandstats").get("cmdstat_wait", "calls=0,")
    return int(told.partition("calls=")[2].partition(",")[0])
