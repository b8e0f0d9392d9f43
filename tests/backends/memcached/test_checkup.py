"""What `doctor` finds at a memcached that is set up just so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from locknut.backends.memcached import checkup
from tests.checkups import FAIL, OK, UNKNOWN, WARN, another_clock, examine
from tests.servers.memcached import MemcachedServer

pytestmark = pytest.mark.memcached
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@both_colours
def test_a_server_as_it_should_be(memcached_server: MemcachedServer, colour: str) -> None:
    found = examine(f"{memcached_server.url}?restart_delay=86400", colour, timeout=5)
    young = found.pop("memcached-restarts")
    assert young.severity is WARN, "it is younger than that"
    for code in ("reachable", "usable", "round-trip"):
        found.pop(code)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 5


@both_colours
def test_a_restart_that_two_holders_survive(memcached_server: MemcachedServer, colour: str) -> None:
    found = examine(memcached_server.url, colour)
    assert found["usable"].severity is OK
    assert found["memcached-restarts"].severity is WARN
    assert "restart_delay=30" in found["memcached-restarts"].advice


@pytest.fixture(scope="module")
def small() -> Iterator[MemcachedServer]:
    """Full, with few clients, that are not allowed to be idle for long."""
    with MemcachedServer("-m", "2", "-c", "100", "-o", "idle_timeout=5") as server:
        server.wait_until_old_enough()
        yield server


@both_colours
def test_a_server_that_is_full_and_evicts(small: MemcachedServer, colour: str) -> None:
    for number in range(1000):
        if int(small.stats()["evictions"]):
            break
        small.ask(f"set filler{number} 0 0 100000\r\n{'x' * 100_000}")
    found = examine(small.url, colour)
    assert found["memcached-evictions"].severity is FAIL
    assert found["memcached-idle-timeout"].severity is WARN
    assert "5 s" in found["memcached-idle-timeout"].found


@both_colours
def test_clients_near_the_limit(small: MemcachedServer, colour: str) -> None:
    with ExitStack() as others:
        while int(small.stats()["curr_connections"]) < 78:
            others.enter_context(small._connect())
        finding = examine(small.url, colour)["memcached-clients"]
    assert finding.severity is WARN


@pytest.mark.slow
@both_colours
def test_a_server_that_refuses_when_it_is_full(colour: str) -> None:
    with MemcachedServer("-m", "2", "-M") as server:
        server.wait_until_old_enough()
        for number in range(1000):
            server.ask(f"set filler{number} 0 0 9000\r\n{'x' * 9000}")
        finding = examine(server.url, colour, timeout=10)["memcached-memory"]
    assert finding.severity is WARN
    assert "refuses to store" in finding.found


def test_a_server_without_cas_ids() -> None:
    with MemcachedServer("-C") as server:
        found = examine(server.url)
    assert found["usable"].severity is FAIL
    assert "CAS" in found["usable"].found
    assert found["memcached-evictions"].severity is UNKNOWN


@both_colours
def test_the_clock(
    memcached_server: MemcachedServer, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "time", another_clock(60))
    assert examine(memcached_server.url, colour)["clock"].severity is WARN
