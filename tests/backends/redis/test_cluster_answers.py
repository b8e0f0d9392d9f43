"""On a cluster, each verb when the answer behind a script that had to be loaded is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from locknut.testing.conformance.scene import Scene
from locknut.testing.proxy import FaultProxy
from tests.backends.redis import test_lost_answers as plain
from tests.servers.cluster import Node, RedisCluster

pytestmark = [pytest.mark.redis, pytest.mark.faults]
LOADED = b"$40\r\n"
"""How the answer to SCRIPT LOAD begins; the answer of the script itself comes right behind it."""
LINES = 3
"""Of these two answers together, at the least."""


class BehindLoading(plain.Between):
    """Loses the answer to a SCRIPT LOAD, and that behind it."""

    def __init__(self, proxy: FaultProxy, node: Node) -> None:
        super().__init__(proxy)
        self._node = node

    async def lose_the_answer(self, scene: Scene, work: Callable[[], Awaitable[Any]]) -> Any:
        self._node.script_flush()
        for way in (self._proxy.requests, self._proxy.replies):
            way.forget()
        self._proxy.replies.hold()

        async def do() -> Any:
            return await work()

        worker = scene.spawn(do)
        await plain._aside(scene, self._lose)
        return await worker.result()

    def _wait_until_it_loads(self) -> None:
        """Its LOAD stays in the proxy. A command whose answer nobody waits for may come before it,
        and is told NOSCRIPT too: who sent that loads nothing.
        """
        requests, replies = self._proxy.requests, self._proxy.replies
        for before in range(3):
            replies.wait_for(b"NOSCRIPT", count=before + 1)
            requests.hold()
            replies.forward()
            with suppress(TimeoutError):
                requests.wait_for(b"LOAD", timeout=3)
                return
            replies.hold()
            requests.forward()
        pytest.fail("nobody loads the script")

    def _lose(self) -> None:
        requests, replies = self._proxy.requests, self._proxy.replies
        self._wait_until_it_loads()
        replies.hold()
        replies.forget()
        requests.forward()
        replies.wait_for(LOADED)
        (loading,) = (each for each in self._proxy.connections if each.replies.seen(LOADED))
        # The script may be sent a moment after it is loaded: a cut in between would lose it.
        loading.replies.wait_for(b"\r\n", count=LINES)  # so it was applied
        replies.swallow()
        replies.forward()


@pytest.fixture(scope="module")
def reached() -> Iterator[tuple[FaultProxy, Node]]:
    """A cluster of one node that is known to everybody by the address of a proxy."""
    with RedisCluster(masters=1) as cluster:
        (node,) = cluster.nodes
        with FaultProxy((node.host, node.port)) as proxy:
            node.ask("CONFIG", "SET", "cluster-announce-port", proxy.port)
            yield proxy, node


class TestLostBehindLoading(plain.TestLostAnswers):
    @pytest.fixture
    def between(self, reached: tuple[FaultProxy, Node]) -> plain.Between:
        proxy, node = reached
        self._url = f"redis+cluster://{node.host}:{proxy.port}?socket_timeout=5"
        return BehindLoading(proxy, node)
