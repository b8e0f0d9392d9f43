"""Engines on which locks are not safe: the first page says so before a lock is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import locknut
from locknut import redlock
from locknut.observer import examiner
from tests.dashboard.conftest import Visit
from tests.dashboard.test_pages import text_of
from tests.dashboard.visitors import Visitor
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examiner, "EVERY", 0.05)


def says(client: Visitor, *words: str) -> Callable[[], bool]:
    """Whether the first page does: asking for it is what sends for the doctor."""
    return lambda: all(each in text_of(client.get("/").text) for each in words)


@pytest.mark.redis
def test_a_server_that_evicts_keys_is_named_until_it_does_not(visit: Visit) -> None:
    with RedisServer() as server, locknut.connect(server.url) as locks:
        client = visit(locks)
        (observer,) = client.dashboard.places.all.values()
        calm = says(client, "Nothing needs attention")
        until(lambda: calm() and observer.doctor.findings, "the doctor was asked")
        assert calm(), "what could be better is on its own page"
        server.ask("CONFIG", "SET", "maxmemory", "1gb")
        server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        until(says(client, "redis-eviction", "allkeys-lru", "noeviction"), "it evicts")
        server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        until(calm, "it does not any more")
        client.dashboard.close()


@pytest.mark.redlock
def test_a_node_in_quarantine_is_named_though_nothing_is_held(visit: Visit) -> None:
    with RedlockNodes(3) as nodes:
        url = f"redlock://{nodes.hosts}"
        redlock.begin(url)
        with locknut.connect(url) as locks:
            locks.ping()
            nodes.nodes[1].flushall()  # as after a restart without its data
            client = visit(locks)
            until(says(client, "redlock-votes", "2 of 3 nodes vote"), "one does not vote")
            client.dashboard.close()
