"""What `doctor` finds at a Redlock whose nodes are set up just so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from locknut import redlock
from tests.checkups import FAIL, OK, UNKNOWN, WARN, examine
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redlock
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@pytest.fixture(scope="module")
def nodes() -> Iterator[RedlockNodes]:
    """Three that never lose data."""
    with RedlockNodes(3, durable=True) as running:
        yield running


@both_colours
def test_a_set_as_it_should_be_but_on_one_machine(nodes: RedlockNodes, colour: str) -> None:
    found = examine(nodes.url, colour)
    assert found.pop("redlock-independence").severity is WARN
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 12


@both_colours
def test_nodes_that_may_lose_data(nodes: RedlockNodes, colour: str) -> None:
    careless = nodes.nodes[0]
    careless.ask("CONFIG", "SET", "appendfsync", "everysec")
    try:
        promised = examine(nodes.url, colour)["redlock-durability"]
    finally:
        careless.ask("CONFIG", "SET", "appendfsync", "always")
    assert promised.severity is FAIL
    assert str(careless.port) in promised.found
    assert str(nodes.nodes[1].port) not in promised.found


@both_colours
def test_a_node_that_evicts_is_named(nodes: RedlockNodes, colour: str) -> None:
    node = nodes.nodes[2]
    node.ask("CONFIG", "SET", "maxmemory", "1gb")
    node.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        finding = examine(nodes.url, colour)["redis-eviction"]
    finally:
        node.ask("CONFIG", "SET", "maxmemory", 0)
        node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert finding.severity is FAIL
    assert f"{node.port}: " in finding.found


@both_colours
@pytest.mark.faults
@pytest.mark.slow
def test_nodes_that_are_gone(nodes: RedlockNodes, colour: str) -> None:
    first, second, third = nodes.nodes
    third.stop()
    try:
        one_less = examine(nodes.url, colour)
        second.stop()
        too_few = examine(nodes.url, colour, timeout=8)
        first.stop()
        none = examine(nodes.url, colour, timeout=8)
    finally:
        for node in nodes.nodes:
            node.cont()
    assert one_less["redlock-votes"].severity is WARN
    assert "no other may fail" in one_less["redlock-votes"].advice
    assert one_less["usable"].severity is OK
    assert too_few["redlock-votes"].severity is FAIL
    assert too_few["reachable"].severity is FAIL
    assert none["redlock-votes"].severity is FAIL
    assert none["redis-eviction"].severity is none["redlock-clocks"].severity is UNKNOWN


@both_colours
def test_a_new_set_does_not_vote_yet(colour: str) -> None:
    with RedlockNodes(3) as new:
        url = f"redlock://{new.hosts}"
        found = examine(url, colour, timeout=10)
        assert found["redlock-votes"].severity is FAIL
        assert found["redlock-durability"].severity is OK
        redlock.begin(url)
        assert examine(url, colour)["redlock-votes"].severity is OK


@both_colours
def test_one_server_under_two_names(nodes: RedlockNodes, colour: str) -> None:
    """As a load balancer or a second name of a host makes it."""
    first, second, _ = nodes.nodes
    hosts = f"127.0.0.1:{first.port},localhost:{first.port},127.0.0.1:{second.port}"
    finding = examine(f"redlock://{hosts}?durable=true", colour, timeout=15)
    assert finding["redlock-independence"].severity is FAIL
    assert "one server" in finding["redlock-independence"].found


@both_colours
def test_a_clock_that_is_off(colour: str) -> None:
    with ExitStack() as running:
        servers = [
            running.enter_context(RedisServer(flavour="valkey", clock=True)) for _ in range(3)
        ]
        url = f"redlock://{','.join(f'{one.host}:{one.port}' for one in servers)}?durable=true"
        assert examine(url, colour)["redlock-clocks"].severity is OK
        servers[1].set_clock(5)
        finding = examine(url, colour)["redlock-clocks"]
        assert finding.severity is WARN
        assert f"{servers[1].port} by 5" in finding.found or "by 5" in finding.found
        servers[0].set_clock(-5)
        assert examine(url, colour, timeout=15)["redlock-clocks"].severity is FAIL
