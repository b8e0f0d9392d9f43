"""Fakes of everything outside the process: an engine that can be cut off, and others' holds."""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import Any, Self

import pytest

from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core.ports import Backend, Runtime
from locknut.core.values import FENCE_STEP, Busy, Claim, Mode
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import run
from locknut.testing.fake_clock import Clock, FakeThreads

COMMANDS = frozenset(
    {
        "attempt", "attempt_all", "renew", "release", "release_all", "downgrade", "detach",
        "attach", "break_hold", "inspect", "inspect_all", "inspect_holders",
        "undo_attach",
    }
)  # fmt: skip
PROPERTIES = ("name", "capabilities", "default_ttl", "min_ttl", "max_ttl", "max_detached_ttl")
"""What a fake has in common with the backend that it replaces."""


class FakeNetwork:
    """The connection to all engines, which a test can cut."""

    def __init__(self) -> None:
        self.cut = False


class FakeBackend:
    """Looks like the backend that it replaces, and keeps its locks in the memory of the test.

    Its commands fail while the connection is cut; the engine never gets them.
    """

    fake = True
    """How a fake lock is told from a real one."""

    def __init__(self, inner: MemoryBackend, line: FakeNetwork, like: Backend):
        self._inner = inner
        self._line = line
        for each in PROPERTIES:
            setattr(self, each, getattr(like, each))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in COMMANDS:
            return value

        async def send(*args: Any, **options: Any) -> Any:
            if self._line.cut:
                message = "cut off by the test (locknut_fail_backend)"
                raise BackendUnavailable(message, backend=self.name)
            return await value(*args, **options)

        return send


class FakeEngine(MemoryEngine):
    """All locks of one place (a URL, as a rule), by the clock of the test."""

    def __init__(self, place: str, clock: Clock, line: FakeNetwork):
        super().__init__(place, clock.wall)
        self.clock = clock
        self.line = line

    def like(self, backend: Backend, runtime: Runtime) -> Any:
        """A connection that looks like this one."""
        return FakeBackend(MemoryBackend(self, runtime), self.line, backend)

    def behind(self) -> MemoryBackend:
        """The locks themselves, for the test: this connection is never cut."""
        return MemoryBackend(self, FakeThreads(self.clock))


class SomebodyElse:
    """A hold that is not the code under test's own, on every engine where that code may look."""

    def __init__(self, clock: Clock, name: str, ttl: float | None, mode: Mode, permits: int):
        self._clock = clock
        self._name = name
        self._ends = None if ttl is None else clock.now() + ttl
        self._kind = (mode, permits)
        self._claims: list[tuple[MemoryBackend, Claim]] = []
        self._released = False
        self.fence = 0
        """The fence of this hold, on the first engine."""

    def hold_at(self, engine: FakeEngine, prefix: str) -> None:
        """Hold the name on this engine too, unless this hold has ended."""
        left = None if self._ends is None else self._ends - self._clock.now()
        if self._released or (left is not None and left <= 0):
            return
        mode, permits = self._kind
        key, who = prefix + self._name, "somebody else"
        claim = Claim(key, secrets.token_hex(16), left, mode, permits, who=who, label=who)
        backend = engine.behind()
        answer = run(backend.attempt(claim, 0.0))
        self._claims.append((backend, claim))
        if isinstance(answer, Busy):
            self.release()
            (info,) = run(backend.inspect(key))
            held = ", ".join(map(str, info.holders))
            pytest.fail(f"somebody else cannot hold {self._name!r}: it is held by {held}")
        self.fence = self.fence or answer.raw * FENCE_STEP

    def release(self) -> None:
        """Release the hold. A second call does nothing."""
        self._released = True
        for backend, claim in self._claims:
            run(backend.release(claim))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
