"""The blocking colour: connections that are kept for the next caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.inboxes import Connections, InboxDelivery
from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.server_port import SendMany, understood
from locknut.core.findings import Check
from locknut.core.values import Claim
from locknut.drivers.redis.confirmations import Confirmation
from locknut.drivers.redis.endpoints import MACHINE, TimeAndChance
from locknut.drivers.redis.lua_scripts import Script


def blocking_backend(pool: Connections, clock: TimeAndChance = MACHINE) -> RedisBackend:
    """Our own layout at one server. A connection per caller, kept for the next one."""
    server, recipe = BlockingServer(pool), Recipe()
    delivery = InboxDelivery(pool, recipe, clock, confirmed=server.confirmation is not None)
    return RedisBackend(server, delivery, recipe, clock)


class BlockingServer:
    """One server, asked by threads."""

    def __init__(self, pool: Connections):
        self._pool = pool
        settings = pool.settings
        self.confirmation = Confirmation(settings) if settings.replicas else None
        self.refused = pool.refused
        self.era_of = pool.era_of
        self.hung_up = pool.hung_up

    async def ask(self, script: Script, packed: bytes) -> Any:
        reply = self._pool.send(packed)
        if type(reply) is int or type(reply) is list:
            return reply
        return await understood(self, script, packed, reply)

    async def send_many(self, packed: Sequence[bytes]) -> list[object]:
        return list(self._pool.send_many(packed))

    async def send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        confirmation = self.confirmation
        if confirmation is None:
            return await self.send_many(packed)
        return confirmation.judge(await self.send_many([*packed, confirmation.question]))

    def in_reach(self, claims: Sequence[Claim]) -> bool:  # noqa: ARG002 -- a cluster looks
        return True

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        return [None] * len(claims)

    async def masters(self) -> list[SendMany]:
        return [self.send_many]

    def checks(self, prefix: str | None) -> Sequence[Check]:
        from locknut.backends.redis import checkup  # few programs need it

        return checkup.checks(self._pool, prefix)

    async def close(self) -> None:
        self._pool.close()

    def dropped(self) -> None:
        """Sockets close themselves."""

    def forked(self) -> None:
        self._pool.close()
