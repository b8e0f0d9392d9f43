"""Somebody deletes nodes by hand: the holder's, and one that waits."""

from __future__ import annotations

import asyncio
import time

import pytest
from kazoo.client import KazooClient

import locknut
from locknut import aio
from locknut.backends.zookeeper import node_names
from locknut.core.values import Busy, Granted
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.zookeeper.conftest import children, claim, engine

pytestmark = pytest.mark.zookeeper
SESSION = 8.0
LATE = 2.0
"""A busy machine's share."""


def taken(kazoo: KazooClient, url: str) -> float:
    """Delete the only node there is; when that was."""
    path = f"/{url.rpartition('/')[2]}/locknut/x"
    (node,) = children(kazoo, path)
    kazoo.delete(f"{path}/{node}")
    return time.monotonic()


def test_the_holder_learns_of_it_a_quarter_of_the_session_later(
    url: str, kazoo: KazooClient
) -> None:
    with locknut.connect(f"{url}?session_timeout={SESSION:g}") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        began = taken(kazoo, url)
        assert lease.held, "nobody has told it"
        assert lease.lost.wait(SESSION)
        assert time.monotonic() - began < SESSION / 4 + LATE


def test_the_same_on_a_loop(url: str, kazoo: KazooClient) -> None:
    async def story() -> None:
        async with aio.connect(f"{url}?session_timeout={SESSION:g}") as locks:
            lease = await locks.lock("x").acquire()
            assert lease is not None
            began = await asyncio.to_thread(taken, kazoo, url)
            assert lease.held
            assert await lease.lost.wait(SESSION)
            assert time.monotonic() - began < SESSION / 4 + LATE

    asyncio.run(story())


def test_a_waiter_that_asks_again_stands_at_the_end(url: str, kazoo: KazooClient) -> None:
    """By itself it asks after 30 s."""
    port = engine(url).blocking(ThreadRuntime())
    held, first, second = claim(), claim(), claim()
    assert isinstance(run(port.attempt(held, 0.0)), Granted)
    for each in (first, second):
        answer = run(port.attempt(each, 0.0))
        assert isinstance(answer, Busy)
        assert answer.retry_in <= 30
    path = f"/{url.rpartition('/')[2]}/t/x"
    (node,) = [each for each in node_names.nodes(children(kazoo, path)) if each.id == first.id]
    kazoo.delete(f"{path}/{node.name}")
    assert isinstance(run(port.attempt(first, 0.0)), Busy)
    line = sorted(node_names.nodes(children(kazoo, path)), key=lambda each: each.sequence)
    assert [each.id for each in line] == [held.id, second.id, first.id]
    run(port.close())
