"""The layout of redis-py's `Lock`, and of much code that does `SET name token NX PX` by hand."""

from __future__ import annotations

from typing import Final

from locknut.backends.redis.layouts import scripts
from locknut.backends.redis.layouts.foreign_layout import CLAIMS, Layout, beside, named
from locknut.core.values import Capability, Holder, KeyPolicy

POLL: Final = 0.1
"""Their releases are silent, so we look, as often as they do: every 0.05 to 0.1 s."""


class RedisPy(Layout):
    """A string at the bare name, with what its holder proves itself with."""

    name = "redis-py"
    capabilities = frozenset(
        {Capability.FENCING, Capability.OWNERS, Capability.DETACHING, Capability.LEASE}
    )
    key_policy = KeyPolicy(namespace="", hand_over=False)
    scripts = scripts.load("redis_py")

    def fence(self, name: bytes) -> bytes:
        return beside(b"locknut_fence", name)

    def channel(self, name: bytes) -> bytes:
        """Of our own releases only."""
        return beside(b"locknut_free", name)

    def mark(self, claim_id: str) -> bytes:
        return claim_id.encode()

    def pause(self, left: float, chance: float, *, fair: bool) -> float:  # noqa: ARG002 -- never fair
        most = POLL * (0.5 + chance / 2)  # so that nobody marches in step
        return min(most, left + 0.001) if left >= 0 else most

    def stranger(self, mark: bytes) -> Holder:  # noqa: ARG002 -- it is a secret
        return Holder(label="another client")

    def listed(self, prefix: bytes) -> tuple[bytes, ...]:  # noqa: ARG002 -- a claim has more before
        """Any string may be a lock, so only what was taken through Locknut is listed."""
        return (b"MATCH", b"*%b*" % CLAIMS, b"TYPE", b"hash")

    def name_of(self, found: bytes) -> bytes | None:
        return named(found, CLAIMS)


REDIS_PY: Final = RedisPy()
