"""Five private masters that know nothing of each other: the nodes of a Redlock."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from tests.servers.redis import RedisServer

NODES = 5


class RedlockNodes:
    """Use it in a `with`. `url` is the whole set, `nodes` are the servers one by one."""

    def __init__(self, count: int = NODES, **settings: Any) -> None:
        self.nodes = [RedisServer(**settings) for _ in range(count)]
        self._stack = ExitStack()

    @property
    def hosts(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    @property
    def url(self) -> str:
        """Trusted never to lose data: a new set votes at once."""
        return f"redlock://{self.hosts}?durable=true"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
