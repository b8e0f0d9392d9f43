"""What a Lock asks for: its options, and the request that is worked out from them once."""

from __future__ import annotations

from typing import NamedTuple

from locknut.core.values import Mode


class LockOptions(NamedTuple):
    """The options of a Lock, checked. Locks with equal options may hand a hold over."""

    ttl: float | None = None
    auto_renew: bool = True
    max_hold: float | None = None
    fair: bool = False
    owner: str | None = None
    mode: Mode = Mode.EXCLUSIVE
    permits: int = 1
    hand_over: bool = True
    """False for the writers of a read-write lock, which never hand over."""


class LockRequest:
    """What a Lock asks for, worked out once: the key, the options, and where re-entry looks.

    Slots, not a NamedTuple: every acquire reads all of it several times.
    """

    __slots__ = ("facts", "key", "options", "queues_locally", "slot")

    def __init__(
        self,
        key: str,
        options: LockOptions,
        slot: object,
        *,
        queues_locally: bool,
        ttl: float | None = None,
    ):
        self.key = key
        self.options = options
        self.slot = slot
        self.queues_locally = queues_locally
        """Whether callers of this process queue up for it among themselves. Readers, permits,
        shared owners and fair locks do not: their order is the engine's. Nor do, where deadlocks
        are broken, callers that hold something: all have to see them wait."""
        self.facts = (ttl, options.mode, options.permits, options.fair, options.owner)
        """What every claim says, between its id and who asks."""
