"""The verbs in a foreign layout, the same in both colours. Nothing is granted unasked: a
release frees the key and announces it, and all waiters ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from hiredis import ReplyError

from locknut.backends.redis import recipe
from locknut.backends.redis.backend import renewal
from locknut.backends.redis.inspector import BATCH
from locknut.backends.redis.layouts.foreign_layout import Layout
from locknut.backends.redis.layouts.recipe import ForeignRecipe
from locknut.backends.redis.server_port import Server, ask_many, checked, product_of
from locknut.core.base import BaseBackend
from locknut.core.findings import Check
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Claim, Granted, LockInfo, Notice
from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import TimeAndChance
from locknut.errors import Unsupported


class Ears(Protocol):
    """How one colour hears that a lock has become free."""

    @property
    def waiters(self) -> Collection[bytes]:
        """The channels for which `ready` has something to do."""

    def watch(self, channel: bytes, signal: Signal) -> AbstractContextManager[Signal]:
        """Rings while it lasts."""

    async def ready(self, channel: bytes) -> None:
        """To be awaited before the lock is asked for once more: later messages are heard."""

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Call it with what is learned of holds without asking for it."""

    def close(self) -> None:
        """No messages are delivered any more."""

    def forked(self) -> None:
        """In a forked child: who waits is the parent's."""


class ForeignBackend(BaseBackend):
    """All verbs are one round trip."""

    default_ttl: float | None = recipe.DEFAULT_TTL
    min_ttl = 0.1
    max_ttl = 30 * 86400.0
    batches = True
    passes_notes = True
    notices_hang_up = True

    def __init__(self, server: Server, ears: Ears, layout: Layout, clock: TimeAndChance):
        self.name = f"redis?layout={layout.name}"
        self.capabilities = layout.capabilities
        self._server = server
        self._ears = ears
        self._layout = layout
        self._clock = clock
        self._ours = recipe.Recipe()
        self._foreign = ForeignRecipe(layout, self._ours)

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        if self._ears.waiters:
            await self._ears.ready(self._foreign.ear(claim))
        reply = await self._server.ask(self._layout.scripts.acquire, self._foreign.acquire(claim))
        if type(reply) is int:
            return Granted(reply)
        queues = claim.fair and claim.waits
        pause = self._layout.pause(reply[0] / 1000, self._clock.random(), fair=queues)
        return Busy(pause, queued=queues)

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        batch = [self._foreign.release(claim, outcome_unknown=outcome_unknown) for claim in claims]
        replies = await ask_many(self._server, self._layout.scripts.release, batch)
        return [checked(self._server, reply) == 1 for reply in replies]

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        packed = self._foreign.release(claim, outcome_unknown=outcome_unknown)
        released: int = await self._server.ask(self._layout.scripts.release, packed)
        return released == 1

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        replies: list[object] = []
        for start in range(0, len(claims), BATCH):
            batch = [self._foreign.renew(claim) for claim in claims[start : start + BATCH]]
            replies += await ask_many(self._server, self._layout.scripts.renew, batch)
        return [renewal(reply) for reply in replies]

    async def downgrade(self, claim: Claim) -> bool:
        message = f"the {self.name} engine does not have the capability 'shared'"
        raise Unsupported(message, key=claim.key, backend=self.name)

    async def detach(self, claim: Claim, ttl: float) -> bool:
        detached: int = await self._server.ask(
            self._layout.scripts.renew, self._foreign.detach(claim, ttl)
        )
        return detached == 1

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        packed = self._foreign.attach(detached, claim)
        raw: int = await self._server.ask(self._layout.scripts.attach, packed)
        return Granted(raw) if raw else None

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await self._server.ask(
            self._layout.scripts.attach, self._foreign.undo_attach(claim, detached)
        )

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        packed = self._foreign.break_hold(key, raw, note)
        return self._foreign.seen(key, await self._server.ask(self._layout.scripts.inspect, packed))

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return self._ears.watch(self._foreign.ear(claim), signal())

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self._ears.listen(on_notice)

    def hung_up(self) -> bool:
        return self._server.hung_up()

    async def server(self) -> str:
        return await product_of(self._server)

    def checks(self, prefix: str) -> Sequence[Check]:  # noqa: ARG002 -- other keys are used
        return self._server.checks(None)

    async def close(self) -> None:
        self._ears.close()
        await self._server.close()

    def dropped(self) -> None:
        self._ears.close()
        self._server.dropped()

    def forked(self) -> None:
        self._ours.forked()
        self._ears.forked()
        self._server.forked()

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await self.inspect_all("")
        packed = self._foreign.inspect(key)
        info = self._foreign.seen(key, await self._server.ask(self._layout.scripts.inspect, packed))
        return [] if info is None else [info]

    async def inspect_holders(self, key: str) -> list[LockInfo]:
        return await self.inspect(key)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        names = sorted(name for name in await self._names(prefix) if name.startswith(prefix))
        found = []
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            asked = [self._foreign.inspect(name) for name in batch]
            replies = await ask_many(self._server, self._layout.scripts.inspect, asked)
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
            (reply,) = await self._server.send_many([packed])
            cursor, keys = checked(self._server, reply)
            for found in keys:
                with suppress(UnicodeDecodeError):  # else it is no name of ours
                    names.add((self._layout.name_of(found) or b"").decode())
        return names - {""}
