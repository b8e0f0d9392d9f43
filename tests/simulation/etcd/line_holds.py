"""The lines of a simulated cluster, seen as the simulator sees a store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from locknut.backends.etcd import key_names, recipe
from locknut.backends.etcd.recipe import Contender
from locknut.core.values import Claim
from tests.simulation.memory.node import SimStore, bare

if TYPE_CHECKING:
    from tests.simulation.etcd.cluster import Cluster


class Shown:
    """A holder. Its end is that of its lease, which the cluster tells when it comes."""

    expires = inf

    def __init__(self, key: str, found: Contender) -> None:
        self.claim = Claim(key, found.id, mode=found.mode, permits=found.permits)
        self.raw = found.created


class LineView(SimStore):
    """Holders and waiters, by the order of their keys."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.wall, _nothing, _nothing)
        self._cluster = cluster

    def holds(self) -> Iterator[Any]:
        for key, line in self._lines():
            for each, holds in zip(line, recipe.holding(line), strict=True):
                if holds:
                    yield Shown(key, each)

    def places_in_line(self) -> Iterator[tuple[str, str]]:
        for key, line in self._lines():
            for each, holds in zip(line, recipe.holding(line), strict=True):
                if not holds:
                    yield bare(key), each.id

    def _lines(self) -> Iterator[tuple[str, list[Contender]]]:
        lines: dict[key_names.Place, list[Contender]] = defaultdict(list)
        for found in self._cluster.agreed.keys.values():
            place = key_names.place(b"", found.key)
            if place is not None:
                lines[place].append(_read(found))
        for place, line in lines.items():
            line.sort(key=lambda each: each.created)
            yield place.key, line


_read = lru_cache(1024)(recipe.contender)


def _nothing(*_: object) -> None:
    """Nothing to do."""
