"""The layout of Redisson (Java): RLock, RFencedLock and the fair lock, as version 4.7 writes them.

What Redisson does on the wire is written down, with recordings, in the project's notes; the tests
have a small client that speaks it.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from locknut.backends.redis.layouts import scripts
from locknut.backends.redis.layouts.foreign_layout import Layout
from locknut.core.values import Capability, Holder, KeyPolicy

NET: Final = 5.0
"""Seconds after which a waiter asks though it heard nothing: a message can be lost."""
IN_QUEUE: Final = 1.0
"""The same in a fair lock's queue, where a waiter has to show that it is there."""
_OWNER: Final = re.compile(rb"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:(\d+)")


class Redisson(Layout):
    """A hash at the bare name; waiters listen to the name's channel."""

    name = "redisson"
    capabilities = frozenset(
        {
            Capability.FENCING,
            Capability.FAIR,
            Capability.OWNERS,
            Capability.DETACHING,
            Capability.WAKE_UP,
            Capability.LEASE,
        }
    )
    key_policy = KeyPolicy(namespace="", hand_over=False, fence_step=1)
    scripts = scripts.load("redisson")

    def keys(self, name: bytes) -> tuple[bytes, ...]:
        queue, gone = b"redisson_lock_queue", b"redisson_lock_timeout"
        return (*super().keys(name), _prefixed(queue, name), _prefixed(gone, name))

    def fence(self, name: bytes) -> bytes:
        return _prefixed(b"redisson_lock_token", name)

    def channel(self, name: bytes) -> bytes:
        return _prefixed(b"redisson_lock__channel", name)

    def ear(self, name: bytes, mark: bytes, *, fair: bool) -> bytes:
        return self.channel(name) + (b":" + mark if fair else b"")

    def mark(self, claim_id: str) -> bytes:
        """Like a Java client's id and thread; no Java thread has the number 0."""
        return f"{UUID(claim_id)}:0".encode()

    def pause(self, left: float, chance: float, *, fair: bool) -> float:  # noqa: ARG002 -- its messages come apart
        most = IN_QUEUE if fair else NET
        return min(most, left + 0.001) if left >= 0 else most

    def stranger(self, mark: bytes) -> Holder:
        owner = _OWNER.match(mark)
        if owner is None:
            return Holder(label="another client")
        return Holder(label=f"Redisson {owner[1].decode()}", who=f"thread {owner[2].decode()}")

    def listed(self, prefix: bytes) -> tuple[bytes, ...]:
        return (b"MATCH", prefix + b"*", b"TYPE", b"hash")

    def name_of(self, found: bytes) -> bytes | None:
        return found

    def looks_held(self, holders: tuple[Holder, ...]) -> bool:
        """Any hash may be met; ours, and those with a Java owner in them, are locks."""
        return any(each.raw is not None or each.who for each in holders)


def _prefixed(prefix: bytes, name: bytes) -> bytes:
    """Redisson's rule for names: no braces around what has some."""
    return prefix + (b":%b" if b"{" in name else b":{%b}") % name


REDISSON: Final = Redisson()
