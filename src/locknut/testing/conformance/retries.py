"""A port that is asked again where it gave no answer, as the core asks (port rules 2 and 3).

A command has a time limit of its own, and on a busy machine a server may take longer than that. The
suite judges what an engine answers, not how fast the machine is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from locknut.core.ports import Backend
from locknut.errors import BackendUnavailable
from locknut.runtimes.clock import now
from locknut.testing.conformance.colours import GLANCE, PATIENCE

_VERBS: Final = frozenset({
    "attach", "attempt", "attempt_all", "break_hold", "downgrade", "inspect", "detach", "release",
    "release_all", "renew",
})  # fmt: skip


class RetryingPort:
    """The port of an engine, in the hands of somebody patient."""

    def __init__(self, port: Backend, pause: Callable[[float], Awaitable[None]]):
        self._port = port
        self._pause = pause
        self._doubtful: set[str] = set()
        """Claims that were asked for without an answer, which may be applied later (L3)."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        return partial(self._insist, name, found) if name in _VERBS else found

    async def _insist(self, name: str, verb: Any, *args: Any, **named: Any) -> Any:
        give_up, unanswered = now() + PATIENCE, False
        if name == "release" and args[0].id in self._doubtful:
            named["outcome_unknown"] = True
        while True:
            try:
                answer = await verb(*args, **named)
            except BackendUnavailable:
                if now() > give_up:
                    raise
                unanswered = True
                if name == "attempt":
                    self._doubtful.add(args[0].id)
                await self._pause(GLANCE)
            else:
                # Gone on a repeated release means that the first was applied (L9).
                return True if unanswered and name == "release" else answer
