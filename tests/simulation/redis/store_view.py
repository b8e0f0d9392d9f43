"""The keys of a simulated Redis server, seen as the simulator sees a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.simulation.memory.node import EPOCH, SimStore, bare
from tests.simulation.redis.holds import Seen, holds, places_in_line

if TYPE_CHECKING:
    from tests.simulation.redis.node import RedisNode


class LookIn(SimStore):
    """The keys, seen as the simulator sees a store."""

    def __init__(self, node: RedisNode) -> None:
        super().__init__(node.wall, _nothing, _nothing)
        self._node = node

    def on_clock(self, ends: float) -> float:
        """The node's own clock, when its wall clock shows that millisecond."""
        return ends / 1000 - EPOCH - self._node.wall_ahead

    def holds(self) -> Iterator[Any]:
        for seen in holds(self._node.keys):
            yield Shown(seen, self.on_clock(seen.ends))

    def places_in_line(self) -> Iterator[tuple[str, str]]:
        for key, claim_id in places_in_line(self._node.keys):
            yield bare(key), claim_id


class Shown:
    """A holder, with its end on the node's clock."""

    def __init__(self, seen: Seen, expires: float) -> None:
        self.claim, self.raw, self.expires = seen.claim, seen.raw, expires


def _nothing(*_: object) -> None:
    """Nothing to do."""
