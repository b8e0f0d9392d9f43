"""Base classes for engines, with defaults for everything that the core can do without.

An author writes `attempt`, `renew`, `release`, `inspect`, `break_hold` and `close`, and overrides
the rest where the engine can do better. docs/extending.md is the page about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, Self, TypeVar

from locknut.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Granted,
    History,
    HoldCheck,
    KeyPolicy,
    LockInfo,
    Notice,
    Renewed,
)
from locknut.errors import LocknutError, Unsupported

if TYPE_CHECKING:
    from locknut.core.findings import Check
    from locknut.core.ports import Backend, Runtime, Signal


class BaseBackend(ABC):
    """A `Backend` that lacks six methods; `ports.py` says what each attribute and method means."""

    name: str
    capabilities: frozenset[Capability]
    default_ttl: float | None
    min_ttl: float
    max_ttl: float
    max_detached_ttl: float | None = None
    heartbeat: float | None = None
    waits_on_first_attempt = False
    batches = False
    passes_notes = False
    notices_hang_up = False
    no_tombstones = ""

    @abstractmethod
    async def attempt(self, claim: Claim, patience: float) -> Answer: ...

    @abstractmethod
    async def renew(self, claims: Sequence[Claim]) -> Sequence[Renewed]: ...

    @abstractmethod
    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool: ...

    @abstractmethod
    async def inspect(self, key: str | None = None) -> list[LockInfo]: ...

    @abstractmethod
    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:  # noqa: ARG002
        """These keys cannot be taken in one step."""
        return None

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        """One after the other; what one of them raises is raised when all had their turn."""
        released, failed = [], None
        for claim in claims:
            try:
                released.append(await self.release(claim, outcome_unknown=outcome_unknown))
            except LocknutError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return released

    async def downgrade(self, claim: Claim) -> bool:
        self._lacks("cannot turn an exclusive hold into a shared one", claim)

    async def detach(self, claim: Claim, ttl: float) -> bool:  # noqa: ARG002
        self._lacks("cannot detach holds", claim)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:  # noqa: ARG002
        self._lacks("cannot attach holds", claim)

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:  # noqa: ARG002
        """The hold is released: right where an answer cannot be lost, safe everywhere."""
        await self.release(claim, outcome_unknown=True)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return [each for each in await self.inspect(None) if each.name.startswith(prefix)]

    async def inspect_holders(self, key: str) -> list[LockInfo]:
        return await self.inspect(key)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:  # noqa: ARG002
        """The signal is never rung: the core asks again after `Busy.retry_in`."""
        return nullcontext(signal())

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        """One place for all."""
        return [None] * len(claims)

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:  # noqa: B027
        """There are no notices: `renew` is enough to notice a loss."""

    def hung_up(self) -> bool:
        return False

    def hold_check(self, claim: Claim) -> HoldCheck:
        self._lacks("keeps no hold where a transaction of yours could look for it", claim)

    async def server(self) -> str:
        return ""

    def checks(self, prefix: str) -> Sequence[Check]:  # noqa: ARG002
        """Nothing is known to look for but what every engine is asked."""
        return ()

    @property
    def settles_at(self) -> float:
        return float("inf")

    async def settle(self) -> None:  # noqa: B027
        """A release that was answered has left nothing behind."""

    async def tidy(self) -> None:  # noqa: B027
        """Nothing gathers that somebody has to remove."""

    async def write_history(self, stream: str, texts: Sequence[str], keep: int) -> None:  # noqa: ARG002
        raise Unsupported(f"the {self.name} engine keeps no history", backend=self.name)

    async def read_history(self, stream: str, back: float | None = None) -> History:  # noqa: ARG002
        raise Unsupported(f"the {self.name} engine keeps no history", backend=self.name)

    inside: Callable[[], bool] = bool
    """`bool()` is False, and costs less than a method: every call asks."""

    def forked(self) -> None:  # noqa: B027
        """Nothing is kept that a child must not have."""

    def dropped(self) -> None:  # noqa: B027
        """Nothing is kept that goes on without a client."""

    def _lacks(self, what: str, claim: Claim) -> NoReturn:
        raise Unsupported(f"the {self.name} engine {what}", key=claim.key, backend=self.name)


class BaseEngine(ABC):
    """An `Engine` that keeps nothing for its backends, and whose keys are ours alone."""

    id: str
    key_policy = KeyPolicy()
    schema = ""

    @abstractmethod
    def blocking(self, runtime: Runtime) -> Backend: ...

    @abstractmethod
    def asyncio(self, runtime: Runtime) -> Backend: ...

    def anew(self) -> Self:
        return self


class HasSignal(Protocol):
    """What an engine remembers of a waiting claim; its `signal` is rung from any thread."""

    signal: Signal | None


Waiter = TypeVar("Waiter", bound=HasSignal)


class Watch(Generic[Waiter]):
    """What `Backend.watch` may return: inside this context the waiting claim can be rung."""

    __slots__ = ("_signal", "_waiter")

    def __init__(self, waiter: Waiter, signal: Signal):
        self._waiter = waiter
        self._signal = signal

    def __enter__(self) -> Signal:
        self._waiter.signal = self._signal
        return self._signal

    def __exit__(self, *raised: object) -> None:
        self._waiter.signal = None
