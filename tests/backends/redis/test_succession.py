"""When another server is the master: all connections leave the old one, whoever noticed first."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.redis.aio import asyncio_backend
from locknut.backends.redis.sync import blocking_backend
from locknut.core.values import Busy, Granted, Renewal
from locknut.drivers.redis import links, pools, sentinel
from locknut.drivers.redis.endpoints import LONG_IDLE, Latest
from locknut.drivers.redis.pools import Pool
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import run
from tests.backends.redis.conftest import PATIENCE, claim, eventually
from tests.backends.redis.test_sentinel import Liar, Switch, liar
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SERVICE

pytestmark = [pytest.mark.redis, pytest.mark.faults]
COLOURS = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[RedisServer, RedisServer]]:
    with RedisServer() as old, RedisServer() as new:
        yield old, new


@pytest.fixture
def masters(two: tuple[RedisServer, RedisServer]) -> tuple[RedisServer, RedisServer]:
    for each in two:
        each.flushall()
    return two


@pytest.fixture
def told(masters: tuple[RedisServer, RedisServer]) -> Iterator[Liar]:
    """A Sentinel that names the old master, until it is told otherwise."""
    with liar(masters[0]) as told:
        yield told


def url(told: Liar, options: str = "") -> str:
    return f"redis+sentinel://{told.place}/{SERVICE}?socket_timeout=10{options}"


def play(colour: str, story: Any) -> None:
    run(story) if colour == "blocking" else asyncio.run(story)


def test_an_epoch_begins_with_another_server() -> None:
    latest, moves = Latest(), []
    latest.listen(lambda: moves.append(latest.epoch))
    for peer in ("a", "a", "b", "b", "a"):
        latest.reached(peer)
    assert moves == [1, 2]
    latest.overtake()
    latest.reached("b")
    assert moves == [1, 2, 3]


@COLOURS
def test_the_keeper_follows_the_caller(
    masters: tuple[RedisServer, RedisServer], colour: str
) -> None:
    """The old master lives on, and knows nothing of what its successor granted: no loss."""

    async def story() -> None:
        place = Switch(*masters)
        keeper = blocking_backend(Pool(place))
        caller: Any = (
            blocking_backend(Pool(place)) if colour == "blocking" else asyncio_backend(place)
        )
        before, after = claim("before"), claim("after")
        assert isinstance(await caller.attempt(before, 0.0), Granted)
        assert await keeper.renew([before]) == [Renewal.HELD]
        place.places.reverse()
        caller._server._pool.forget() if colour == "blocking" else caller._server.link.forget()
        assert isinstance(await caller.attempt(after, 0.0), Granted)
        assert await keeper.renew([after]) == [Renewal.HELD]
        await keeper.close()
        await caller.close()

    play(colour, story())


@COLOURS
def test_the_caller_follows_the_keeper(
    masters: tuple[RedisServer, RedisServer], colour: str
) -> None:
    async def story() -> None:
        place = Switch(*masters)
        keeper = blocking_backend(Pool(place))
        caller: Any = (
            blocking_backend(Pool(place)) if colour == "blocking" else asyncio_backend(place)
        )
        held, other = claim(), claim()
        assert isinstance(await caller.attempt(claim("y"), 0.0), Granted)
        assert await keeper.renew([held]) == [Renewal.LOST]
        place.places.reverse()
        keeper._server._pool.forget()  # type: ignore[attr-defined]
        assert isinstance(await keeper.attempt(held, 0.0), Granted)
        await asyncio.sleep(0) if colour == "asyncio" else None
        assert isinstance(await caller.attempt(other, 0.0), Busy), "it asked the old master"
        await keeper.close()
        await caller.close()

    play(colour, story())


def test_what_an_old_master_answers_late_is_no_answer(
    masters: tuple[RedisServer, RedisServer],
) -> None:
    """It did not know the hold, and says so after its successor was found."""
    old, _ = masters
    place = Switch(*masters)
    keeper, caller = blocking_backend(Pool(place)), blocking_backend(Pool(place))
    mine = claim()
    run(keeper.renew([mine]))
    run(caller.renew([mine]))
    answers: list[Any] = []

    def renew() -> None:
        try:
            answers.extend(run(keeper.renew([mine])))
        except BackendUnavailable as error:
            answers.append(error)

    old.stop()
    try:
        asking = threading.Thread(target=renew)
        asking.start()
        place.places.reverse()
        caller._server._pool.forget()  # type: ignore[attr-defined]
        assert isinstance(run(caller.attempt(mine, 0.0)), Granted)
    finally:
        old.cont()
    asking.join(PATIENCE)
    assert isinstance(answers[0], BackendUnavailable) or answers == [Renewal.HELD]
    run(keeper.close())
    run(caller.close())


# What is noticed without asking the server.


@COLOURS
def test_a_server_that_hangs_up_has_all_holds_looked_at(server: RedisServer, colour: str) -> None:
    """It restarted without its data, say; the next renewal would be in a quarter of an hour."""
    if colour == "blocking":
        with locknut.connect(server.url, namespace="t") as locks:
            lease = locks.lock("x", ttl=3000).acquire()
            assert lease is not None
            lease.renew()
            forget_everything(server, locks._client.keeper)
            assert lease.lost.wait(PATIENCE)
        return

    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            lease = await locks.lock("x", ttl=3000).acquire()
            assert lease is not None
            forget_everything(server, None)
            assert await lease.lost.wait(PATIENCE)

    asyncio.run(story())


def forget_everything(server: RedisServer, keeper: Any) -> None:
    if keeper is not None:  # it has a connection once it has renewed something
        keeper.on_notice(None, Renewal.HELD)
        eventually(lambda: scripts_by(server) >= 2, "the keeper has not renewed")
    server.flushall()
    server.client_kill()


def scripts_by(server: RedisServer) -> int:
    """How many connections have asked for a script last."""
    told = server.ask("CLIENT", "LIST")
    assert isinstance(told, bytes)
    return told.count(b"cmd=evalsha")


@COLOURS
def test_leases_are_looked_at_when_another_server_is_reached(
    masters: tuple[RedisServer, RedisServer], told: Liar, colour: str
) -> None:
    old, new = masters

    async def on_a_loop() -> None:
        async with aio.connect(url(told), namespace="t") as locks:
            lease = await locks.lock("x", ttl=3000).acquire()
            assert lease is not None
            told.told = new
            old.client_kill()
            async with locks.lock("y", timeout=PATIENCE):
                pass
            assert await lease.lost.wait(PATIENCE)

    if colour == "asyncio":
        asyncio.run(on_a_loop())
        return
    with locknut.connect(url(told), namespace="t") as locks:
        lease = locks.lock("x", ttl=3000).acquire()
        assert lease is not None
        told.told = new
        old.client_kill()
        with locks.lock("y", timeout=PATIENCE):
            pass
        assert lease.lost.wait(PATIENCE)


# A master that was frozen, and woke up deposed.


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing counts as just now."""
    monkeypatch.setattr(pools, "LONG_IDLE", 0.0)
    monkeypatch.setattr(links, "LONG_IDLE", 0.0)
    monkeypatch.setattr(sentinel, "_FRESH", 0.0)


@COLOURS
@pytest.mark.parametrize("layout", ["", "&layout=redisson", "&layout=redis-py"])
@pytest.mark.usefixtures("impatient")
def test_an_idle_connection_is_not_used_before_the_master_is_known(
    masters: tuple[RedisServer, RedisServer], told: Liar, colour: str, layout: str
) -> None:
    _, new = masters
    options = f"{layout}&namespace=t"

    async def on_a_loop() -> None:
        async with aio.connect(url(told, options)) as locks:
            async with locks.lock("x"):
                pass
            told.told = new
            async with locks.lock("x"):
                assert held_at(new)

    if colour == "asyncio":
        asyncio.run(on_a_loop())
        return
    with locknut.connect(url(told, options)) as locks:
        with locks.lock("x"):
            pass
        told.told = new
        with locks.lock("x"):
            assert held_at(new)


@COLOURS
@pytest.mark.usefixtures("impatient")
def test_where_no_sentinel_answers_what_is_known_has_to_do(
    masters: tuple[RedisServer, RedisServer], told: Liar, colour: str
) -> None:
    old, _ = masters

    async def on_a_loop() -> None:
        async with aio.connect(url(told), namespace="t") as locks:
            async with locks.lock("x"):
                pass
            told.told = None
            async with locks.lock("x", timeout=PATIENCE):
                assert held_at(old)

    if colour == "asyncio":
        asyncio.run(on_a_loop())
        return
    with locknut.connect(url(told), namespace="t") as locks:
        with locks.lock("x"):
            pass
        told.told = None
        with locks.lock("x", timeout=PATIENCE):
            assert held_at(old)


def held_at(server: RedisServer) -> bool:
    keys = server.ask("KEYS", "*")
    assert isinstance(keys, list)
    return any(str(each).endswith(("x}'", "x'")) for each in keys)


@COLOURS
@pytest.mark.usefixtures("impatient")
def test_an_answer_that_took_long_is_not_believed_before_the_master_is_known(
    masters: tuple[RedisServer, RedisServer], told: Liar, colour: str
) -> None:
    """The question waited in the frozen master's socket while its successor was elected."""
    old, new = masters
    got: list[Any] = []

    async def on_a_loop() -> None:
        async with aio.connect(url(told), namespace="t") as locks:
            async with locks.lock("y"):
                pass
            old.stop()
            asking = asyncio.create_task(locks.lock("x").acquire(timeout=PATIENCE))
            await asyncio.to_thread(thaw, told, old, new)
            lease = await asking
            got.append(lease)
            assert held_at(new), "the deposed master was believed"

    if colour == "asyncio":
        asyncio.run(on_a_loop())
    else:
        with locknut.connect(url(told), namespace="t") as locks:
            with locks.lock("y"):
                pass
            old.stop()
            asking = threading.Thread(
                target=lambda: got.append(locks.lock("x").acquire(timeout=PATIENCE))
            )
            asking.start()
            thaw(told, old, new)
            asking.join(PATIENCE)
            assert held_at(new), "the deposed master was believed"
    assert got[0] is not None


@COLOURS
def test_a_connection_that_took_long_is_not_used_before_the_master_is_known(
    masters: tuple[RedisServer, RedisServer],
    told: Liar,
    colour: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel accepted it for the frozen master, which says when it wakes that it is one."""
    monkeypatch.setattr(sentinel, "_FRESH", 0.0)
    old, new = masters
    old.stop()
    got: list[Any] = []

    async def on_a_loop() -> None:
        async with aio.connect(url(told), namespace="t") as locks:
            got.append(await locks.lock("x").acquire(timeout=PATIENCE))
            assert held_at(new), "the deposed master was believed"

    def ask() -> None:
        if colour == "asyncio":
            asyncio.run(on_a_loop())
            return
        with locknut.connect(url(told), namespace="t") as locks:
            got.append(locks.lock("x").acquire(timeout=PATIENCE))
            assert held_at(new), "the deposed master was believed"

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: told.asked, "the Sentinel was not asked")
    time.sleep(2 * LONG_IDLE)  # as long as an election takes
    thaw(told, old, new, asked=-1)
    asking.join(PATIENCE)
    assert got[0] is not None
    assert not held_at(old)


def thaw(told: Liar, old: RedisServer, new: RedisServer, asked: int | None = None) -> None:
    asked = told.asked if asked is None else asked
    give_up = time.monotonic() + PATIENCE
    while told.asked == asked:  # the Sentinel was asked before the question went out
        assert time.monotonic() < give_up
        time.sleep(0.01)
    told.told = new
    old.cont()
