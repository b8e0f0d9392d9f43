"""`lease.renew()` says so when nobody confirmed it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

import locknut
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core import renewing
from locknut.core.ports import Runtime
from locknut.core.values import Claim, Renewal
from locknut.runtimes.threads import run


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


class Deaf(MemoryBackend):
    """Has no answer to a detach, by which a hold is made to end sooner."""

    async def detach(self, claim: Claim, ttl: float) -> bool:
        raise locknut.BackendUnavailable("no answer", backend=self.name)


class DeafEngine(MemoryEngine):
    def blocking(self, runtime: Runtime) -> MemoryBackend:
        return Deaf(self, runtime)


def test_a_hold_that_may_end_sooner_is_told_lost_then() -> None:
    """The keeper went by the time before, and told its loss only at the end of that."""
    with locknut.Locks(DeafEngine()) as locks:
        lease = locks.lock("x", ttl=3600, auto_renew=False).acquire()
        assert lease is not None
        told = threading.Event()
        lease.on_lost(lambda _: told.set())
        with pytest.raises(locknut.BackendUnavailable):
            run(renewing.last_for(locks._client, lease, 0.1))
        assert told.wait(30)
