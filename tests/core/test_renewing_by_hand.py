"""`lease.renew()` says so when nobody confirmed it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import locknut
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core.ports import Runtime
from locknut.core.values import Claim, Renewal


class Mute(MemoryBackend):
    """Has no answer to a renewal, as an engine whose script was refused."""

    async def renew(self, claims: Sequence[Claim]) -> list[Renewal]:
        return [Renewal.UNKNOWN] * len(claims)


class Engine(MemoryEngine):
    def blocking(self, runtime: Runtime) -> MemoryBackend:
        return Mute(self, runtime)


def test_an_unconfirmed_renewal_raises_and_extends_nothing() -> None:
    with locknut.Locks(Engine()) as locks:
        lease = locks.lock("x", ttl=60, auto_renew=False).acquire()
        assert lease is not None
        before = lease._hold.valid_until
        with pytest.raises(locknut.BackendError, match="not confirmed"):
            lease.renew()
        assert lease.state is locknut.State.AT_RISK
        assert lease._hold.valid_until == before
