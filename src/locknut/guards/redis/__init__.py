"""The guard for data in Redis: steps with an old fence are refused, in the same step as the check.

    with locks.lock("stock:7") as lease:
        stock = RedisGuard(client, "stock:7").enter(lease)
        left = int(stock.run("GET", "stock:7"))
        stock.run("SET", "stock:7", left - 1)

`client` is the program's own `redis.Redis`; for `redis.asyncio.Redis` there is the same in
`locknut.guards.redis.aio`. Errors of the commands are that client's own.
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
    """Guards what belongs to one key, for one holder at a time: make a new one for each hold.

    The newest fence is kept beside the key, in `{key}:guard`, for ever. Everybody who changes the
    data must come through a guard; a client that does not is not refused.
    """

    def newest(self) -> int | None:
        """The newest fence that entered, by anybody; None if none did."""
        found = self._client.get(self.record)
        return None if found is None else int(found)

    def enter(self, lease: Fenced | int) -> Self:
        """Come in, before the first read: from now on everybody with an older fence is refused.

        The same fence may come in again; an older one raises `StaleFence`.
        """
        fence = fence_of(lease)
        steps.admitted(fence, self.record, self._send(steps.enter(self.record, fence)))
        self._fence = fence
        return self

    def run(self, *words: Word) -> Any:
        """One command, like `run("SET", key, value)`, if nobody newer has entered; its answer."""
        return self.run_all([words])[0]

    def run_all(self, commands: Sequence[Command]) -> list[Any]:
        """Several commands in one step, as in MULTI: nobody else's come in between."""
        step = steps.commands(self.record, self._fence, commands)
        return steps.admitted(int(step.words[0]), self.record, self._send(step))

    def eval(self, script: str, keys: Sequence[Word] = (), args: Sequence[Word] = ()) -> Any:
        """Your own Lua, with your KEYS and ARGV, if nobody newer has entered."""
        step = steps.own(self.record, self._fence, script, keys, args)
        found = steps.admitted(int(step.words[0]), self.record, self._send(step))
        return found[0] if found else None

    def _send(self, step: steps.Step) -> Any:
        try:
            return self._client.evalsha(step.script.sha, *step.arguments)
        except Exception as error:
            if not steps.unscripted(error):  # else nothing was done, so asking again is safe
                raise
        return self._client.eval(step.script.text, *step.arguments)
