"""On a cluster, each verb when the answer behind a script that had to be loaded is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from locknut.testing.conformance.scene import Scene
from locknut.testing.proxy import FaultProxy
from tests.backends.redis import test_lost_answers as plain
from tests.servers.cluster import Node, RedisCluster

pytestmark = [pytest.mark.redis, pytest.mark.faults]
LOADED = b"$40\r\n"
"""How the answer to SCRIPT LOAD begins; the answer of the script itself comes right behind it."""


class BehindLoading(plain.Between):
    """Loses the first answer that comes together with that of a SCRIPT LOAD."""

    def __init__(self, proxy: FaultProxy, node: Node) -> None:
        super().__init__(proxy)
        self._node = node

    async def lose_the_answer(self, scene: Scene, work: Callable[[], Awaitable[Any]]) -> Any:
        proxy = self._proxy
        self._node.script_flush()
        proxy.replies.forget()
        proxy.replies.cut_at(LOADED)

        async def do() -> Any:
            return await work()

        worker = scene.spawn(do)
        await plain._aside(scene, lambda: proxy.replies.wait_for(LOADED))  # so it was applied
        await plain._aside(scene, proxy.replies.forward)
        return await worker.result()


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
