"""What a process knows of items in the cache without looking: the CAS ids that it put there.

Shared by all backends of an engine: one takes a lock, and the keeper's renews it. What is
remembered may be out of date; then the server refuses, and one looks. It is of one instance of the
server: the next one counts its CAS ids from the beginning, and an id may be another's there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

Instance = tuple[int, int]
MOST: Final = 4096
"""Free locks that are remembered."""


class Handle(NamedTuple):
    """By what the item of a lock is known."""

    cas: int
    instance: Instance
    raw: int = 0
    """The number of the grant, if it is held."""


class Handles:
    """By claim, and by key for what is free. Single steps only, so that threads need no mutex."""

    def __init__(self) -> None:
        self.held: dict[str, Handle] = {}
        """By the claim's id."""
        self.free: dict[str, Handle] = {}
        """By the lock's key: what was free when we saw it last. Whoever uses one takes it out: its
        CAS id is another after that."""

    def doubt(self, claim_id: str) -> None:
        """A command of this claim got no answer, or ended it: its CAS id may be another."""
        self.held.pop(claim_id, None)

    def freed(self, key: str, handle: Handle) -> None:
        """The lock is free, as far as we know."""
        if len(self.free) >= MOST:
            self.free.clear()  # rarely, and it only costs a look each
        self.free[key] = handle

    def forked(self) -> None:
        """What the parent holds is the parent's."""
        self.held.clear()
        self.free.clear()
