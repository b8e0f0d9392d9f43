"""Bells of a database that cannot wake anybody: waits are paced, except within one client."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from locknut.core.ports import Runtime


class Unrung:
    """A client rings nobody but itself."""

    wakes = False

    def __init__(self, runtime: Runtime):
        self._runtime = runtime
        self._rings: dict[str, Callable[[], None]] = {}
        self.client = runtime.new_id()

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:  # noqa: ARG002 -- a database could tell by them
        self._rings[claim_id] = ring

    def forget(self, claim_id: str) -> None:
        self._rings.pop(claim_id, None)

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        for _, claim_id in waiting:
            ring = self._rings.get(claim_id)
            if ring is not None:
                ring()

    async def close(self) -> None: ...

    def dropped(self) -> None: ...

    def forked(self) -> None:
        """The child is another client."""
        self._rings = {}
        self.client = self._runtime.new_id()
