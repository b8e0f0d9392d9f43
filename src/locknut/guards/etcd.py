"""The guard for data in etcd, with locks in the same cluster: a comparison for a transaction.

    with locks.lock("stock:7") as lease:
        held = held_key(lease)
        client.transaction({
            "compare": [held.comparison()],
            "success": [{"request_put": {"key": ..., "value": ...}}],
        })

The put is done while the lock is held, and not at all once it is not: both are decided by the
cluster in one step. So no fence has to be kept beside the data.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from locknut.core.holding import LeaseCore
from locknut.core.values import Mode
from locknut.errors import ConfigurationError

__all__ = ["HeldKey", "held_key"]


class HeldKey(NamedTuple):
    """The key in etcd that is there, with this create revision, as long as the hold lasts."""

    key: bytes
    create_revision: int

    def comparison(self) -> dict[str, str | int]:
        """As etcd's JSON gateway wants it, and so etcd3gw's `transaction`. With the transactions of
        aetcd or etcd3 it is `Create(held.key) == held.create_revision`.
        """
        return {
            "key": base64.b64encode(self.key).decode(),
            "target": "CREATE",
            "result": "EQUAL",
            "create_revision": self.create_revision,
        }


def held_key(lease: LeaseCore) -> HeldKey:
    """Compare this in every transaction of this hold: none is done once the hold has ended.

    Raises as `lease.check()` does if the hold is over by our own clock, and `ConfigurationError`
    for a lease of another engine or of a lock that others share.
    """
    client, claim = lease._client, lease._hold.claim
    stands = getattr(client.backend, "held_key", None)
    if stands is None:
        raise ConfigurationError(f"{lease!r} is not a lease of a lock in etcd")
    if claim.mode is not Mode.EXCLUSIVE:
        raise ConfigurationError(
            f"a guard is for exclusive holds: {claim.mode.value} holders are there at the same "
            "time; take the lock itself (or .write())"
        )
    lease.check()
    found: tuple[bytes, int] | None = stands(claim)
    if found is None:
        raise ConfigurationError(f"{lease!r} has ended meanwhile")
    return HeldKey(*found)
