"""Who holds and who waits, for people, and breaking a hold by force: the same in both colours."""

from __future__ import annotations

import logging
from typing import Final

from hiredis import ReplyError

from locknut.backends.redis import lock_keys, recipe
from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.scripts import INSPECT
from locknut.backends.redis.server_port import Server, ask_many, checked
from locknut.core.values import LockInfo
from locknut.drivers.redis import wire
from locknut.errors import BackendError, BackendUnavailable

log = logging.getLogger("locknut.redis")
BATCH: Final = 500


class Inspector:
    """The verbs of those who look at locks and do not want one."""

    def __init__(self, server: Server, recipe: Recipe):
        self._server = server
        self._recipe = recipe

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        batch = [
            self._recipe.break_hold(key, raw, note, permits=permits) for permits in (False, True)
        ]
        holders = [
            holder
            for permits, reply in enumerate(await ask_many(self._server, INSPECT, batch))
            if (info := self._seen(key, bool(permits), reply)) is not None
            for holder in info.holders
        ]
        return LockInfo(key, tuple(holders)) if holders else None

    async def inspect(self, key: str, only: bytes = b"") -> list[LockInfo]:
        batch = [self._recipe.inspect(key, permits=permits, only=only) for permits in (False, True)]
        replies = await ask_many(self._server, INSPECT, batch)
        found = [self._seen(key, bool(permits), reply) for permits, reply in enumerate(replies)]
        return recipe.by_name(each for each in found if each is not None)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        """The database is looked through in steps, so that others are served in between."""
        places = sorted(await self._all_places(prefix))
        found: list[LockInfo] = []
        unseen: list[BackendUnavailable] = []
        for start in range(0, len(places), BATCH):
            batch = places[start : start + BATCH]
            packed = [self._recipe.inspect(each, permits=permits) for each, permits in batch]
            for place, reply in zip(
                batch, await ask_many(self._server, INSPECT, packed), strict=True
            ):
                error = wire.failed(reply) if isinstance(reply, ReplyError) else reply
                if isinstance(error, BackendUnavailable):
                    unseen.append(error)
                elif isinstance(reply, ReplyError):
                    pass  # it only looks like a lock's key, or is one that we may not see
                elif (info := self._seen(*place, reply)) is not None:
                    found.append(info)
        if unseen:
            log.warning("%d locks could not be listed: %s", len(unseen), unseen[0].message)
        return recipe.by_name(found)

    async def _all_places(self, prefix: str) -> set[tuple[str, bool]]:
        """Every lock and semaphore that has a key there and begins so."""
        places: set[tuple[str, bool]] = set()
        match = b"MATCH", lock_keys.pattern(prefix), b"COUNT", b"1000"
        silent: list[BackendError] = []
        servers = await self._server.masters()
        for send_many in servers:
            cursor = b""
            try:
                while cursor != b"0":
                    (reply,) = await send_many([wire.pack(b"SCAN", cursor or b"0", *match)])
                    cursor, keys = checked(self._server, reply)
                    found = map(lock_keys.key_of, keys)
                    places.update(place for place in found if place is not None)
            except BackendError as error:
                silent.append(error)
        if silent and len(silent) == len(servers):
            raise silent[0]
        for each in silent:
            log.warning("the locks of one node are not listed: %s", each.message)
        return places

    def _seen(self, key: str, permits: bool, reply: object) -> LockInfo | None:
        return recipe.seen(key, permits, checked(self._server, reply))
