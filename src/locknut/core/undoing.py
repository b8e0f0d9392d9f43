"""Claims that are given back behind their callers, because they were withdrawn or lost.

Each is released until the engine answers. The queue is filled from anywhere, a destructor included,
so without a mutex: appends are atomic. The keeper empties it, several claims in one round trip
where the engine can.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from locknut.core import pacing
from locknut.core.runtime_port import NEVER
from locknut.core.timetable import BATCH
from locknut.core.values import Capability, Claim
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from locknut.core.ports import Backend, Runtime


class Owed(NamedTuple):
    """One claim that has to be given back."""

    claim: Claim
    outcome_unknown: bool
    back_to: Claim | None = None
    """The detached claim whose hold it may have taken over."""
    give_up: float = NEVER
    """When the ttl must have removed it by itself; known after the first failure."""


class Undoing:
    """What one client owes its engine."""

    def __init__(self, backend: Backend, runtime: Runtime):
        self._runtime = runtime
        self._lasting = Capability.SESSION in backend.capabilities
        """Whether no ttl removes anything: what is not given back lasts as long as the process."""
        self._owed: deque[Owed] = deque()
        self.retry_at = NEVER

    def __len__(self) -> int:
        return len(self._owed)

    def add(self, owed: Owed) -> None:
        self._owed.append(owed)

    async def give_back(
        self, backend: Backend, meanwhile: Callable[[], Awaitable[None]], *, last: bool
    ) -> None:
        """Try each of them once; what fails is tried again later, unless this is the last time."""
        self.retry_at = NEVER
        left = len(self._owed)
        while left > 0 and self._owed:
            # Each may take a command's whole time limit: no hold is lost because of another's end.
            await meanwhile()
            batch = list(self._owed)[: self._together(backend, left)]
            left -= len(batch)
            try:
                await _release(backend, batch)
            except BackendUnavailable:
                if last:
                    return  # close() has insisted already
                self._later(batch)
            except Exception:  # noqa: BLE001  # the keeper lives on
                if len(batch) > 1:
                    await self._one_by_one(backend, batch, meanwhile)
                elif not last:
                    self._later(batch)
            for _ in batch:  # only now: what was interrupted is tried again
                self._owed.popleft()

    def _together(self, backend: Backend, most: int) -> int:
        """How many of the first can be given back in one round trip."""
        if not backend.batches:
            return 1
        count = 0
        for owed in list(self._owed)[: min(most, BATCH)]:
            if owed.back_to is not None:
                break
            count += 1
        return max(1, count)

    async def _one_by_one(
        self, backend: Backend, batch: list[Owed], meanwhile: Callable[[], Awaitable[None]]
    ) -> None:
        """One of them was refused, and hides what came of the others."""
        for owed in batch:
            await meanwhile()
            try:
                await _release(backend, [owed])
            except Exception:  # noqa: BLE001  # as above
                self._later([owed])

    def _later(self, batch: list[Owed]) -> None:
        now = self._runtime.now()
        for owed in batch:
            give_up = owed.give_up
            if give_up == NEVER and not self._lasting:
                give_up = now + (owed.claim.ttl or pacing.OUTAGE_PATIENCE)
            if now < give_up:
                self._owed.append(owed._replace(outcome_unknown=True, give_up=give_up))
                self.retry_at = now + pacing.RETRY_MOST


async def _release(backend: Backend, batch: list[Owed]) -> None:
    first = batch[0]
    if len(batch) > 1:
        outcome_unknown = any(owed.outcome_unknown for owed in batch)
        await backend.release_all([owed.claim for owed in batch], outcome_unknown=outcome_unknown)
    elif first.back_to is not None:
        await backend.undo_attach(first.claim, first.back_to)
    else:
        await backend.release(first.claim, outcome_unknown=first.outcome_unknown)
