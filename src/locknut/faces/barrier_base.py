"""What barriers and latches of either face are, apart from waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import register, validation
from locknut.core.counting_down import Countdown
from locknut.core.meeting import BarrierParty
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.faces.locks_base import LocksBase

MOST: int = 64
"""Parties: each is named in a text that everybody reads."""


class BarrierBase:
    """A name at which so many parties wait for each other."""

    def __init__(
        self,
        locks: LocksBase,  # type: ignore[type-arg]  # of either face
        name: str,
        parties: int,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
    ):
        client = locks._client
        register.check_engine(client)
        self._locks = locks
        self.name = validation.name(name)
        self.parties = _number(parties, "parties", MOST)
        self._ttl = validation.ttl(ttl, client.backend.min_ttl, client.backend.max_ttl)
        self._timeout = timeout
        validation.wait(timeout)

    def _party(self) -> BarrierParty:
        return BarrierParty(self._locks._client, self.name, self.parties, self._ttl)

    def _until(self, timeout: validation.Duration | None) -> float:
        return _deadline(self._locks._client, self._timeout if timeout is None else timeout)

    def __repr__(self) -> str:
        where = f"{self.name!r} on {self._locks.backend}"
        return f"<{type(self).__name__} {where}: {self.parties} parties>"


class LatchBase:
    """A name with a number that is counted down to 0 once."""

    def __init__(
        self,
        locks: LocksBase,  # type: ignore[type-arg]  # of either face
        name: str,
        count: int,
        timeout: validation.Duration | None = None,
    ):
        register.check_engine(locks._client)
        self._locks = locks
        self.name = validation.name(name)
        self.count = _number(count, "count", 10**9)
        self._timeout = timeout
        validation.wait(timeout)

    def _countdown(self) -> Countdown:
        return Countdown(self._locks._client, self.name, self.count)

    def _until(self, timeout: validation.Duration | None) -> float:
        return _deadline(self._locks._client, self._timeout if timeout is None else timeout)

    def __repr__(self) -> str:
        where = f"{self.name!r} on {self._locks.backend}"
        return f"<{type(self).__name__} {where}: from {self.count}>"


def _number(value: object, argument: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"{argument} must be an int from 1 to {most}, got {value!r}")
    return value


def _deadline(client: Client, timeout: validation.Duration | None) -> float:
    wait = validation.wait(timeout)
    return wait if wait == validation.FOREVER else client.runtime.now() + wait
