"""The file engine behind the core's port: one recipe, and the bell of one colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final

from locknut.backends.file import history_file, holders, holds
from locknut.backends.file.bells import Bell, Ringer
from locknut.backends.file.outcomes import Crowded, failed
from locknut.backends.file.recipe import Recipe
from locknut.core.base import BaseBackend
from locknut.core.ports import Runtime, Signal
from locknut.core.values import Answer, Capability, Claim, Granted, History, LockInfo, Renewed
from locknut.errors import Unsupported

if TYPE_CHECKING:
    from locknut.core.findings import Check

LOCAL: Final = frozenset(
    {
        Capability.FENCING,
        Capability.FAIR,
        Capability.SHARED,
        Capability.PERMITS,
        Capability.OWNERS,
        Capability.DOWNGRADE,
        Capability.DETACHING,
        Capability.WAITERS,
        Capability.WAKE_UP,
        Capability.SESSION,
        Capability.NO_EVICTION,
        Capability.HISTORY,
    }
)
ACROSS_MACHINES: Final = LOCAL - {
    Capability.FAIR,
    Capability.WAITERS,
    Capability.WAKE_UP,
    Capability.DETACHING,
    Capability.HISTORY,
}
"""Tickets and history have times of one machine's clock, detached holds are counted by it, and
bells ring on one machine only."""


MakeBell = Callable[[Ringer, Callable[[], Signal], Callable[[], float], Callable[[], object]], Bell]


class FileBackend(BaseBackend):
    """All commands end without waiting; only the bell of `watch` sleeps."""

    name = "file"
    default_ttl: float | None = None
    min_ttl = 0.01
    max_ttl = 10 * 365 * 86400.0
    heartbeat: float | None = 1.0
    passes_notes = True

    def __init__(
        self,
        recipe: Recipe,
        runtime: Runtime,
        bell: MakeBell,
        capabilities: frozenset[Capability] = LOCAL,
    ) -> None:
        self.capabilities = capabilities
        self._recipe = recipe
        self._now = runtime.now
        self._bell = bell

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- never waits
        try:
            return self._recipe.attempt(claim)
        except OSError as error:
            raise failed(error, claim.key) from error

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        try:
            return holds.renew(self._recipe, claims)
        except OSError as error:
            raise failed(error, None) from error

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        try:
            return self._recipe.release(claim, outcome_unknown=outcome_unknown)
        except OSError as error:
            raise failed(error, claim.key) from error

    async def downgrade(self, claim: Claim) -> bool:
        try:
            return holds.downgrade(self._recipe, claim)
        except (OSError, Crowded) as error:
            raise failed(error, claim.key) from error

    async def detach(self, claim: Claim, ttl: float) -> bool:
        if self.capabilities is ACROSS_MACHINES:
            message = "a detached hold is counted by one machine's clock: not with ?network=allow"
            raise Unsupported(message, key=claim.key, backend=self.name)
        try:
            return holds.detach(self._recipe, claim, ttl)
        except (OSError, Crowded) as error:
            raise failed(error, claim.key) from error

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        try:
            return holds.attach(self._recipe, detached, claim)
        except (OSError, Crowded) as error:
            raise failed(error, claim.key) from error

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        try:
            return holders.break_hold(self._recipe, key, raw, note)
        except (OSError, Crowded) as error:
            raise failed(error, key) from error

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        try:
            return holders.inspect(self._recipe.files, key, self._recipe.me)
        except OSError as error:
            raise failed(error, key) from error

    async def write_history(self, stream: str, texts: Sequence[str], keep: int) -> None:
        try:
            history_file.write(self._recipe.files.folder, stream, texts, keep)
        except (OSError, Crowded) as error:
            raise failed(error, None) from error

    async def read_history(self, stream: str, back: float | None = None) -> History:
        try:
            return history_file.read(self._recipe.files.folder, stream, back)
        except OSError as error:
            raise failed(error, None) from error

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        try:
            withdrawal = _Withdrawal(self._recipe, claim)
            bell = self._bell(self._recipe.ringer, signal, self._now, withdrawal)
            return BellWatch(self._recipe, claim, bell)
        except OSError as error:
            raise failed(error, claim.key) from error

    def checks(self, prefix: str) -> Sequence[Check]:  # noqa: ARG002 -- the whole directory
        from locknut.backends.file import checkup  # few programs need it

        return checkup.checks(self._recipe.files.folder.directory, ofd_locks=True)

    async def close(self) -> None:
        self._recipe.close()

    def forked(self) -> None:
        self._recipe.forget()


class BellWatch:
    """The bell of a claim, for as long as its caller waits."""

    def __init__(self, recipe: Recipe, claim: Claim, bell: Bell) -> None:
        self._recipe = recipe
        self._state = recipe.state_of(claim)
        self._bell = bell

    def __enter__(self) -> Bell:
        with self._state.mutex:
            self._state.watch(self._bell)
        return self._bell

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        state, bell = self._state, self._bell
        with state.mutex:
            state.watch(None)
            if state.raw is None or state.claim.id not in self._recipe.states:
                bell.close()
            elif not bell.close_later():
                state.used = bell


class _Withdrawal:
    """What becomes of a claim whose waiter never comes back."""

    __slots__ = ("_claim", "_recipe")

    def __init__(self, recipe: Recipe, claim: Claim) -> None:
        self._recipe = recipe
        self._claim = claim

    def __call__(self) -> None:
        with suppress(OSError):
            self._recipe.withdraw(self._claim)
