"""What a Lock asks for: its terms, and the request that is worked out from them once."""

from __future__ import annotations

from typing import NamedTuple

from locknut.core.values import Mode


class Terms(NamedTuple):
    """What a Lock asks for: equal terms may hand a hold over to each other."""

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
    """What a Lock asks for, worked out once: the key, the terms, and where re-entry looks.

    Slots, not a NamedTuple: every acquire reads all of it several times.
    """

    __slots__ = ("facts", "key", "queues_locally", "slot", "terms")

    def __init__(
        self,
        key: str,
        terms: Terms,
        slot: object,
        *,
        queues_locally: bool,
        ttl: float | None = None,
    ):
        self.key = key
        self.terms = terms
        self.slot = slot
        self.queues_locally = queues_locally
        """Whether callers of this process queue up for it among themselves."""
        self.facts = (ttl, terms.mode, terms.permits, terms.fair, terms.owner)
        """What every claim says, between its id and who asks."""
