"""What differs between the foreign layouts; the verbs are the same in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from locknut.backends.redis.layouts.scripts import Scripts
from locknut.core.values import Capability, Holder, KeyPolicy

CLAIMS = b"locknut_claims"


class Layout(ABC):
    """One form of a lock that another library defined."""

    name: str
    capabilities: frozenset[Capability]
    key_policy: KeyPolicy
    scripts: Scripts

    def keys(self, name: bytes) -> tuple[bytes, ...]:
        """Behind the hold and its fence: where our claims are, then what only this layout has."""
        return (name, self.fence(name), beside(CLAIMS, name))

    @abstractmethod
    def fence(self, name: bytes) -> bytes:
        """The key of the number of the last grant."""

    @abstractmethod
    def channel(self, name: bytes) -> bytes:
        """Where a release is announced."""

    def ear(self, name: bytes, mark: bytes, *, fair: bool) -> bytes:  # noqa: ARG002 -- Redisson's are
        """The channel that a waiter listens to."""
        return self.channel(name)

    @abstractmethod
    def mark(self, claim_id: str) -> bytes:
        """What stands in the key for a hold that this claim begins."""

    @abstractmethod
    def pause(self, left: float, chance: float, *, fair: bool) -> float:
        """How long to wait without a word; the present hold lasts for `left` (< 0: not known)."""

    @abstractmethod
    def stranger(self, mark: bytes) -> Holder:
        """A holder that is not ours, as far as its mark tells."""

    @abstractmethod
    def listed(self, prefix: bytes) -> tuple[bytes, ...]:
        """What narrows a SCAN down to keys that may be such locks, or belong to one."""

    @abstractmethod
    def name_of(self, found: bytes) -> bytes | None:
        """The lock that such a key stands for."""

    def looks_held(self, holders: tuple[Holder, ...]) -> bool:
        """Whether what was found at a key that nobody named is a lock."""
        return bool(holders)


def beside(prefix: bytes, name: bytes) -> bytes:
    """A key of ours in the name's own hash slot, and no two names share one."""
    return name + b":" + prefix if b"{" in name else b"%b:{%b}" % (prefix, name)


def named(found: bytes, prefix: bytes) -> bytes | None:
    """The name that a key lies beside: the way back from `beside`."""
    if found.startswith(prefix + b":{") and found.endswith(b"}"):
        return found[len(prefix) + 2 : -1]
    if b"{" in found and found.endswith(b":" + prefix):
        return found[: -len(prefix) - 1]
    return None
