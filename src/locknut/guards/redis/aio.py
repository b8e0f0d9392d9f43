"""The guard for data in Redis, for asyncio: `locknut.guards.redis` with a `redis.asyncio.Redis`.

    async with locks.lock("stock:7") as lease:
        stock = await RedisGuard(client, "stock:7").enter(lease)
        left = int(await stock.run("GET", "stock:7"))
        await stock.run("SET", "stock:7", left - 1)

A step that was cancelled may still happen: it carries its fence, so it happens only while nobody
newer has entered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from locknut.guards.fences import Fenced, fence_of
from locknut.guards.redis import steps
from locknut.guards.redis.guard import RedisGuardBase
from locknut.guards.redis.steps import Command, Word

__all__ = ["RedisGuard"]


class RedisGuard(RedisGuardBase):
    """Guards what belongs to one key, for one holder at a time: make a new one for each hold."""

    async def newest(self) -> int | None:
        """The newest fence that entered, by anybody; None if none did."""
        found = await self._client.get(self.record)
        return None if found is None else int(found)

    async def enter(self, lease: Fenced | int) -> Self:
        """Come in, before the first read: from now on everybody with an older fence is refused."""
        fence = fence_of(lease)
        steps.admitted(fence, self.record, await self._send(steps.enter(self.record, fence)))
        self._fence = fence
        return self

    async def run(self, *words: Word) -> Any:
        """One command, if nobody newer has entered; its answer."""
        return (await self.run_all([words]))[0]

    async def run_all(self, commands: Sequence[Command]) -> list[Any]:
        """Several commands in one step, as in MULTI: nobody else's come in between."""
        step = steps.commands(self.record, self._fence, commands)
        return steps.admitted(int(step.words[0]), self.record, await self._send(step))

    async def eval(self, script: str, keys: Sequence[Word] = (), args: Sequence[Word] = ()) -> Any:
        """Your own Lua, with your KEYS and ARGV, if nobody newer has entered."""
        step = steps.own(self.record, self._fence, script, keys, args)
        found = steps.admitted(int(step.words[0]), self.record, await self._send(step))
        return found[0] if found else None

    async def _send(self, step: steps.Step) -> Any:
        try:
            return await self._client.evalsha(step.script.sha, *step.arguments)
        except Exception as error:
            if not steps.unscripted(error):
                raise
        return await self._client.eval(step.script.text, *step.arguments)
