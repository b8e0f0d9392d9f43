"""What stands in the cache, and how many round trips it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import locknut
from locknut.backends.memcached.backend import MemcachedBackend
from locknut.backends.memcached.handles import Handles, Instance
from locknut.core.values import Busy, Granted
from locknut.drivers.memcached.replies import Reply
from locknut.drivers.memcached.server_clocks import ServerClocks
from locknut.drivers.memcached.server_identity import Greeted
from locknut.drivers.memcached.settings import RESTART_DELAY, read
from locknut.drivers.memcached.sync import Pool
from locknut.errors import Unsupported
from locknut.runtimes.threads import ThreadRuntime
from locknut.urls import parse
from tests.backends.memcached.conftest import claim, port, run
from tests.servers.memcached import MemcachedServer

pytestmark = pytest.mark.memcached


FOREIGN = (
    *("x", "[1]", '{"a":1}', '["","",""]', "", "[" * 100_000),
    # As long as one of ours.
    "[1,2,3,4,5,6,7,8,9]",
    '["",0,"t:foreign",null,"","","",1,1.0]',
    '["id","0","t:foreign",null,"","","",1,1.0]',
    '["id",0,["t:foreign"],null,"","","",1,1.0]',
    '["id",0,"t:foreign",[],"","","",1,1.0]',
)


class Counting(Pool):
    """Counts round trips."""

    trips = 0

    async def ask(
        self, packed: Sequence[bytes], instance: Instance | None = None
    ) -> tuple[list[Reply], Greeted]:
        self.trips += 1
        return await super().ask(packed, instance)

    def change(self, packed: bytes, instance: Instance) -> int:
        self.trips += 1
        return super().change(packed, instance)


def counted(server: MemcachedServer) -> tuple[MemcachedBackend, Counting]:
    pool = Counting(read(parse(server.url)), ServerClocks())
    return MemcachedBackend(pool, Handles(), RESTART_DELAY, ThreadRuntime()), pool


def test_round_trips(memcached_server: MemcachedServer) -> None:
    locks, pool = counted(memcached_server)
    names = [f"trips{n}" for n in range(5)]
    first = [claim(name) for name in names]
    for mine in first:
        assert isinstance(run(locks.attempt(mine, 0.0)), Granted)
    assert pool.trips == 2 * len(names)  # new ones: made by the look, and claimed
    pool.trips = 0
    run(locks.renew(first))
    assert pool.trips == 1
    for mine in first:
        assert run(locks.release(mine))
    assert pool.trips == 1 + len(names)
    pool.trips = 0
    again = claim("trips0")
    assert isinstance(run(locks.attempt(again, 0.0)), Granted)
    assert pool.trips == 1
    assert run(locks.release(again))
    run(locks.close())


def test_what_stands_there(memcached_server: MemcachedServer) -> None:
    locks, mine = port(memcached_server.url), claim("layout", ttl=30.0)
    run(locks.attempt(mine, 0.0))
    held = memcached_server.ask("mg t:layout v t")
    assert mine.id in held
    assert 30 <= _left(held) <= 33  # with two seconds more: it may end that much early
    assert run(locks.release(mine))
    free = memcached_server.ask("mg t:layout v t")
    assert free.splitlines()[1] == "free"
    assert 298 <= _left(free) <= 300
    run(locks.close())


def _left(told: str) -> int:
    return int(next(word[1:] for word in told.split() if word[0] == "t"))


def test_somebody_elses_item_is_somebody_elses_lock(memcached_server: MemcachedServer) -> None:
    locks, mine = port(memcached_server.url), claim("foreign")
    for value in FOREIGN:
        assert memcached_server.ask(f"ms t:foreign {len(value)} T100\r\n{value}") == "HD\r\n"
        assert isinstance(run(locks.attempt(mine, 0.0)), Busy)
        assert not run(locks.release(mine))
        (info,) = run(locks.inspect("t:foreign"))
        assert info.locked
    memcached_server.ask("md t:foreign")
    assert isinstance(run(locks.attempt(mine, 0.0)), Granted)
    assert run(locks.release(mine))
    run(locks.close())


def test_what_an_item_says_of_its_holder_may_be_anything(memcached_server: MemcachedServer) -> None:
    locks = port(memcached_server.url)
    for facts in ('1,null,[],"x",1e999', '{},2,3,true,"then"'):
        value = f'["id",0,"t:odd",null,{facts}]'
        assert memcached_server.ask(f"ms t:odd {len(value)} T100\r\n{value}") == "HD\r\n"
        (info,) = run(locks.inspect("t:odd"))
        (holder,) = info.holders
        assert (holder.host, holder.who, holder.label, holder.since) == ("", "", "", None)
        assert str(holder)
    memcached_server.ask("md t:odd")
    run(locks.close())


def test_how_often_a_waiter_asks(memcached_server: MemcachedServer) -> None:
    locks, mine = port(memcached_server.url), claim("pace")
    run(locks.attempt(mine, 0.0))
    for _ in range(20):
        busy = run(locks.attempt(claim("pace"), 0.0))
        assert isinstance(busy, Busy)
        assert 0.025 <= busy.retry_in <= 0.075
        assert not busy.queued
    assert run(locks.release(mine))
    run(locks.close())


def test_what_it_cannot_do_is_refused(memcached_server: MemcachedServer) -> None:
    with locknut.connect(memcached_server.url) as locks:
        wanted: list[Callable[[], object]] = [
            lambda: locks.rwlock("x").read().acquire(),
            lambda: locks.semaphore("x", 3).acquire(),
            lambda: locks.lock("x", fair=True).acquire(),
            lambda: locks.lock("x", owner="me").acquire(),
        ]
        for ask in wanted:
            with pytest.raises(Unsupported, match="memcached"):
                ask()
        with locks.lock("x") as lease:
            assert 28 < lease.remaining <= 30
