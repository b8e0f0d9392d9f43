"""Several locks in one script: how many commands, and what a lost answer or a strange key does."""

from __future__ import annotations

import asyncio
import threading

import pytest

import locknut
from locknut import aio
from locknut.testing.proxy import FaultProxy
from tests.backends.redis.conftest import eventually
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


def scripts_run(server: RedisServer) -> int:
    stat = server.info("commandstats").get("cmdstat_evalsha", "calls=0,")
    return int(stat.partition("calls=")[2].partition(",")[0])


def test_one_command_takes_them_and_one_packet_gives_them_back(server: RedisServer) -> None:
    with (
        locknut.connect(server.url, namespace="t") as locks,
        locknut.connect(server.url, namespace="t") as other,
    ):
        for each in (locks, other):
            with each.all("a", "b"):
                pass  # the scripts are loaded
        begun = scripts_run(server)
        leases = locks.all("a", "b", "c", "d").acquire()
        assert leases is not None
        assert scripts_run(server) - begun == 1
        assert sorted(leases.fences) == ["a", "b", "c", "d"]
        assert other.all("d", "e").acquire(blocking=False) is None
        assert scripts_run(server) - begun == 2
        leases.release()
        assert scripts_run(server) - begun == 6


def test_on_a_loop_both_ways_are_one_packet(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            async with locks.all("a", "b"):
                pass
            begun = scripts_run(server)
            async with locks.all("a", "b", "c"):
                assert scripts_run(server) - begun == 1
            assert scripts_run(server) - begun == 4

    asyncio.run(story())


def test_lost_answers_are_asked_for_again(server: RedisServer) -> None:
    with FaultProxy((server.host, server.port)) as proxy:
        url = server.url_through(proxy.port) + "?socket_timeout=1"
        with locknut.connect(url, namespace="t") as locks:
            with locks.all("a", "b"):
                pass
            first: list[int] = []

            def applied() -> bool:
                if server.ask("EXISTS", "t:{a}", "t:{b}") == 2:
                    first[:] = [fence(server, name) for name in "ab"]
                return bool(first)

            proxy.replies.swallow()
            heal_once(proxy, applied)
            leases = locks.all("a", "b").acquire()
            assert leases is not None
            assert list(leases.fences.values()) == first  # the second asking got no others
            for lease in leases:
                assert [each.fence for each in locks.info(lease.name).holders] == [lease.fence]
            proxy.replies.swallow()
            heal_once(proxy, lambda: server.ask("EXISTS", "t:{a}", "t:{b}") == 0)
            leases.release()
            assert not locks.list()


def heal_once(proxy: FaultProxy, so: object) -> None:
    def wait() -> None:
        eventually(so, "the command never arrived")  # type: ignore[arg-type]
        proxy.heal()

    threading.Thread(target=wait, daemon=True).start()


def test_a_strange_key_is_an_error_and_takes_nothing(server: RedisServer) -> None:
    server.ask("RPUSH", "t:{b}", "not a lock")
    with locknut.connect(server.url, namespace="t") as locks:
        with pytest.raises(locknut.BackendError, match="list"):
            locks.all("a", "b").acquire(blocking=False)
        assert not server.ask("EXISTS", "t:{a}")
        assert not locks._client.lines
    server.ask("DEL", "t:{b}")


def test_a_busy_one_is_waited_for_in_its_line(server: RedisServer) -> None:
    """All but the busy one stay free for others until it is our turn there, or after."""
    with (
        locknut.connect(server.url, namespace="t") as locks,
        locknut.connect(server.url, namespace="t") as other,
    ):
        held = other.lock("a").acquire()
        assert held is not None
        got: list[object] = []

        def take() -> None:
            with locks.all("a", "b", timeout=20) as leases:
                got.append(leases.held)

        waiter = threading.Thread(target=take)
        waiter.start()
        eventually(lambda: other.info("a").waiters, "nobody stands in line")
        with other.lock("b", timeout=0):
            pass
        held.release()
        waiter.join(20)
        assert got == [True]


def test_numbers_begin_with_the_clock(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks, locks.all("new", "newer") as leases:
        (seconds, _) = map(int, server.ask("TIME"))  # type: ignore[arg-type]
        for fence in leases.fences.values():
            assert abs(fence / 1e6 - seconds) < 60
        for name in ("new", "newer"):
            left = server.ask("PTTL", f"t:{{{name}}}:fence")
            assert isinstance(left, int)
            assert 0 < left <= 3_660_000


def fence(server: RedisServer, name: str) -> int:
    found = server.ask("GET", f"t:{{{name}}}:fence")
    assert isinstance(found, bytes)
    return int(found) * 32
