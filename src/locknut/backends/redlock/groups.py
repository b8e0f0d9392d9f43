"""A node that is a group: a master that Sentinels replace. Only for who asked for it.

What that loses: a master that is cut off goes on voting beside its successor, so one node votes
twice (S5). The page of the engine says what narrows that, and that the fence closes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from locknut.drivers.redis import sentinel, settings
from locknut.drivers.redis.connections import BlockingDial, Connection
from locknut.drivers.redis.endpoints import ConfiguredEndpoint, Endpoint, FixedEndpoint
from locknut.drivers.redis.settings import Settings
from locknut.errors import ConfigurationError
from locknut.runtimes.threads import run

if TYPE_CHECKING:
    from locknut.urls import Url

HANDSHAKE: Final = 0.3
"""Seconds for what blocks when a connection is made: a node that hangs in it costs this once, then
it is left alone."""
SINGLE: Final = ("redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix")
GROUPS: Final = ("redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel")


def node_at(url: Url, *, failover: bool) -> ConfiguredEndpoint:
    """Where a node is to be found, if it may be one."""
    if url.scheme in SINGLE:
        return FixedEndpoint(settings.read(url))
    if url.scheme in GROUPS and failover:
        return sentinel.read(url)
    advice = (
        "failover=True allows it, and the page of redlock: says what that loses"
        if url.scheme in GROUPS
        else f"it is one of {', '.join(SINGLE)}"
    )
    message = (
        f"a node of Redlock is a single master, got {url.scheme}: what stands behind Sentinels or "
        f"in a cluster could vote twice after a failover; {advice}"
    )
    raise ConfigurationError(message, backend="redlock")


def name_of(place: Endpoint) -> str:
    """What tells one node from another."""
    service: str = getattr(place, "service", "")
    return f"{service} behind Sentinels" if service else place.settings.place


def located(place: Endpoint) -> Settings:
    """Where to connect to now, in the blocking colour: Sentinels are asked, and not for long."""
    if isinstance(place, FixedEndpoint):
        return place.settings
    master: Connection = run(place.reach(_QUICK))
    master.close()
    return place.settings.at(master.settings.host, master.settings.port)


class _Quickly(BlockingDial):
    async def open(self, settings: Settings, *, curious: bool = False) -> Connection:
        brief = replace(settings, limit=HANDSHAKE, connect_limit=HANDSHAKE)
        return await super().open(brief, curious=curious)


_QUICK: Final = _Quickly()
