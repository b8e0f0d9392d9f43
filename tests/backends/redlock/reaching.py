"""How a test waits until nodes have done what was sent to them."""

from __future__ import annotations

from typing import Any

from tests.servers.redlock import RedlockNodes


async def reach_all(paint: Any, locks: Any, nodes: RedlockNodes, name: str) -> None:
    """Until each of them has voted for this lock, and done all that went to it before that."""
    reached: set[int] = set()
    while len(reached) < len(nodes.nodes):
        async with locks.lock(name):
            await paint.pause(0.01)
            for at, node in enumerate(nodes.nodes):
                if node.ask("EXISTS", f"locknut:{{{name}}}:redlock") == 1:
                    reached.add(at)
