"""A forked child lets its parent's connections alone, in both colours."""

from __future__ import annotations

import pytest

from tests.forks.engine_children import a_loop_survives_the_child, the_childs_lease_is_inert
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]


def test_the_childs_lease_is_inert_and_the_parents_lives(server: RedisServer) -> None:
    the_childs_lease_is_inert(server.url, ttl=5, namespace="t")


def test_a_loops_connection_survives_the_child(server: RedisServer) -> None:
    a_loop_survives_the_child(server.url, namespace="t")
