"""A latch: a number that processes count down, and that others wait for to reach 0.

What was counted stays counted, whatever becomes of the process that did it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from locknut.core.register import Pauses, Register, Seen
from locknut.errors import BackendUnavailable, BrokenBarrier, ConfigurationError

if TYPE_CHECKING:
    from locknut.core.client import Client

TTL: Final = 86400.0
"""How long a latch outlives the last that happened to it; a waiter keeps it."""
REMEMBERED: Final = 64
"""How many steps back one whose answer was lost is found."""


class Count(NamedTuple):
    """What the register says."""

    era: str
    """Another one each time that a latch is begun."""
    total: int
    left: int
    steps: tuple[str, ...] = ()
    """The last steps down, so that one whose answer was lost is counted once."""


def stepped(state: Count, step: str) -> Count:
    """One less."""
    steps = (*state.steps, step)[-REMEMBERED:]
    return state._replace(left=max(0, state.left - 1), steps=steps)


class Countdown:
    """One latch, as one client has it."""

    def __init__(self, client: Client, name: str, count: int):
        self._client = client
        self._name = name
        self._count = count
        self._register = Register(client, name, "latch", TTL)

    async def count_down(self) -> int:
        """Count one down; return how many are left."""
        step = self._client.runtime.new_id()[:8]
        doubtful: Count | None = None
        """What it was when our step may have been counted, though nobody told us."""
        while True:
            seen, state = await self._look()
            if seen is None:
                begun = self._begun()
                new = stepped(begun, step)
                if await self._register.create(new):
                    return new.left
                doubtful = begun if self._register.in_doubt else None
                continue
            if step in state.steps or state.left == 0:
                return state.left
            if doubtful is not None and _out_of_sight(doubtful, state):
                raise self._unknown()
            doubtful = None
            new = stepped(state, step)
            if await self._register.swap(seen, new):
                return new.left
            if self._register.in_doubt:
                doubtful = state

    async def wait(self, until: float) -> bool:
        """Wait for 0; False if the time expired first."""
        runtime, pauses = self._client.runtime, Pauses(self._client, until)
        era, keep_at = "", runtime.now()
        while True:
            seen, state = await self._look()
            if era and era != (state.era if seen else ""):
                raise self._gone()
            if seen is not None and state.left == 0:
                return True
            now = runtime.now()
            if now >= until:
                return False
            if seen is not None:
                era = state.era
                if now >= keep_at:
                    keep_at = now + self._register.ttl / 3
                    await self._register.keep(seen)
            await pauses.sleep()

    async def left(self) -> int:
        """How many are still to be counted down."""
        return (await self._look())[1].left

    async def reset(self) -> None:
        """Begin anew; those who wait are told."""
        while True:
            seen, _ = await self._look()
            if seen is None or await self._register.swap(seen, self._begun()):
                return

    def _begun(self) -> Count:
        return Count(self._client.runtime.new_id()[:8], self._count, self._count)

    async def _look(self) -> tuple[Seen | None, Count]:
        seen = await self._register.read()
        if seen is None:
            return None, Count("", self._count, self._count)
        state = _count(seen.facts)
        if state.total != self._count:
            message = f"this latch has the count {state.total} there, not {self._count}"
            raise ConfigurationError(message, key=self._name, backend=self._client.backend.name)
        return seen, state

    def _unknown(self) -> BackendUnavailable:
        message = "whether it was counted is not known: its answer was lost"
        return BackendUnavailable(message, key=self._name, backend=self._client.backend.name)

    def _gone(self) -> BrokenBarrier:
        message = "the latch was reset, or the engine lost it: what was counted is not known"
        return BrokenBarrier(message, key=self._name, backend=self._client.backend.name)


def _out_of_sight(then: Count, now: Count) -> bool:
    """Whether a step of that time is not named any more."""
    return then.era == now.era and then.left - now.left >= REMEMBERED


def _count(facts: Sequence[Any]) -> Count:
    era, total, left, steps = facts
    return Count(era, total, left, tuple(steps))
