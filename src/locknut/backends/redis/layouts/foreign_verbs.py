"""The verbs in a foreign layout, the same in both colours. Nobody is granted what he did not ask
for: a release frees the key and tells so, and who waits asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hiredis import ReplyError

from locknut.backends.redis import backend
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.inspector import BATCH
from locknut.backends.redis.layouts.foreign_layout import Layout
from locknut.backends.redis.layouts.recipe import ForeignRecipe
from locknut.core.values import Answer, Busy, Claim, Granted, LockInfo, Notice
from locknut.drivers.redis import wire
from locknut.errors import Unsupported


class ForeignVerbs(RedisBackend):
    """All verbs are one round trip."""

    _layout: Layout
    _foreign: ForeignRecipe

    def _speak(self, layout: Layout) -> None:
        """Once, when this is made: a colour's constructor knows nothing of layouts."""
        self.name = f"redis?layout={layout.name}"
        self.capabilities = layout.capabilities
        self._layout = layout
        self._foreign = ForeignRecipe(layout, self._recipe)

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        reply = await self._ask(self._layout.scripts.acquire, self._foreign.acquire(claim))
        if type(reply) is int:
            return Granted(reply)
        queues = claim.fair and claim.waits
        pause = self._layout.pause(reply[0] / 1000, self._clock.random(), fair=queues)
        return Busy(pause, queued=queues)

    async def attempt_all(self, claims: Sequence[Claim]) -> None:
        """One after the other: nobody else takes several in one step here."""

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        batch = [self._foreign.release(claim, outcome_unknown=outcome_unknown) for claim in claims]
        replies = await self._ask_many(self._layout.scripts.release, batch)
        return [self._checked(reply) == 1 for reply in replies]

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        packed = self._foreign.release(claim, outcome_unknown=outcome_unknown)
        released: int = await self._ask(self._layout.scripts.release, packed)
        return released == 1

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        replies: list[object] = []
        for start in range(0, len(claims), BATCH):
            batch = [self._foreign.renew(claim) for claim in claims[start : start + BATCH]]
            replies += await self._ask_many(self._layout.scripts.renew, batch)
        return [backend._renewal(reply) for reply in replies]

    async def downgrade(self, claim: Claim) -> bool:
        message = f"the {self.name} engine does not have the capability 'shared'"
        raise Unsupported(message, key=claim.key, backend=self.name)

    async def detach(self, claim: Claim, ttl: float) -> bool:
        detached: int = await self._ask(
            self._layout.scripts.renew, self._foreign.detach(claim, ttl)
        )
        return detached == 1

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        packed = self._foreign.attach(detached, claim)
        raw: int = await self._ask(self._layout.scripts.attach, packed)
        return Granted(raw) if raw else None

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await self._ask(self._layout.scripts.attach, self._foreign.undo_attach(claim, detached))

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        packed = self._foreign.break_hold(key, raw, note)
        return self._foreign.seen(key, await self._ask(self._layout.scripts.inspect, packed))

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await self.inspect_all("")
        packed = self._foreign.inspect(key)
        info = self._foreign.seen(key, await self._ask(self._layout.scripts.inspect, packed))
        return [] if info is None else [info]

    async def inspect_holders(self, key: str) -> list[LockInfo]:
        return await self.inspect(key)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        names = sorted(name for name in await self._names(prefix) if name.startswith(prefix))
        found = []
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            asked = [self._foreign.inspect(name) for name in batch]
            replies = await self._ask_many(self._layout.scripts.inspect, asked)
            for name, reply in zip(batch, replies, strict=True):
                info = None if isinstance(reply, ReplyError) else self._foreign.seen(name, reply)
                if info is not None and self._layout.looks_held(info.holders):
                    found.append(info)
        return found

    async def _names(self, prefix: str) -> set[str]:
        """What may be locks, as far as the server can tell."""
        names: set[str] = set()
        cursor, chosen = b"", self._layout.listed(prefix.encode())
        while cursor != b"0":
            packed = wire.pack(b"SCAN", cursor or b"0", b"COUNT", b"1000", *chosen)
            (reply,) = await self._send_many([packed])
            cursor, keys = self._checked(reply)
            for found in keys:
                with suppress(UnicodeDecodeError):  # else it is no name of ours
                    names.add((self._layout.name_of(found) or b"").decode())
        return names - {""}
