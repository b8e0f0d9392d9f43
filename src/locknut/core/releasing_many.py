"""Many holds given back together, in one patience for all of them: when a client closes, and when
the process ends.

Where the locks live on several servers, one that is silent costs only its own: each server's holds
are a group, and a group that gets no answer waits until all the others had their turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import pacing
from locknut.core.runtime_port import NEVER
from locknut.core.timetable import BATCH
from locknut.errors import BackendUnavailable, LocknutError

if TYPE_CHECKING:
    from locknut.core.holding import Hold
    from locknut.core.ports import Backend, Runtime

SHARE = 0.4
"""Seconds of the patience that one of several servers may take without an answer."""


async def give_back(
    backend: Backend, runtime: Runtime, left: list[Hold], until: float, *, insist: bool = True
) -> None:
    """Take out of `left` what was answered, until nothing is left to ask for or that time. Without
    `insist`, a server that did not answer is not asked again.
    """
    groups = _groups(backend, left)
    share = SHARE if len(groups) > 1 else NEVER
    rounds = _Rounds(backend, runtime, left, until, share)
    tries = 0
    while groups:
        groups = [rest for group in groups if (rest := await rounds.unanswered(group))]
        tries += 1
        again = runtime.now() + pacing.backoff(tries, runtime.random())
        if not insist or again >= until:
            break
        if groups:
            await runtime.signal().wait(again)
    if rounds.trouble is not None:
        raise rounds.trouble


class _Rounds:
    """What several groups have in common."""

    def __init__(
        self, backend: Backend, runtime: Runtime, left: list[Hold], until: float, share: float
    ):
        self._backend = backend
        self._runtime = runtime
        self._left = left
        self._until = until
        self._share = share
        self._at_once = BATCH if backend.batches else 1
        self.trouble: Exception | None = None
        """What no engine should say."""

    async def unanswered(self, group: list[Hold]) -> list[Hold]:
        """Give back as many of them as are answered. Return the others."""
        while group and self._runtime.now() < self._until:
            some = group[: self._at_once]
            work = _release(self._backend, some)
            try:
                if self._share == NEVER:
                    await work
                else:
                    limit = min(self._until, self._runtime.now() + self._share)
                    await self._runtime.finish(work, limit)
            except BackendUnavailable:
                return group
            except LocknutError:
                pass  # one was refused, and hides what came of its neighbours
            except Exception as error:  # noqa: BLE001  # the others are tried all the same
                self.trouble = error
            else:
                _take_out(self._left, some)
            group = group[self._at_once :]
        return group


def _groups(backend: Backend, holds: list[Hold]) -> list[list[Hold]]:
    if not holds:
        return []
    places = backend.scatter([hold.claim for hold in holds])
    groups: dict[object, list[Hold]] = {}
    for hold, place in zip(holds, places, strict=True):
        groups.setdefault(place, []).append(hold)
    return list(groups.values())


async def _release(backend: Backend, some: list[Hold]) -> None:
    """In one round trip, where the engine can."""
    if len(some) == 1:
        await backend.release(some[0].claim, outcome_unknown=some[0].outcome_unknown)
        return
    outcome_unknown = any(hold.outcome_unknown for hold in some)
    await backend.release_all([hold.claim for hold in some], outcome_unknown=outcome_unknown)


def _take_out(left: list[Hold], some: list[Hold]) -> None:
    answered = {hold.claim.id for hold in some}
    left[:] = [hold for hold in left if hold.claim.id not in answered]
