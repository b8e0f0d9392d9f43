"""Stand-ins for the rest of the world: an engine that can be cut off, and somebody else's holds."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import pytest

import locknut
from locknut import aio
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core import losing
from locknut.core.holding import LeaseCore
from locknut.core.values import DEFAULT_NAMESPACE, FENCE_STEP, Busy, Claim, LockInfo, Mode
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import run
from locknut.testing.clock import Clock, FakeLoop, FakeThreads

COMMANDS = frozenset(
    {
        "attempt", "attempt_all", "renew", "release", "release_all", "downgrade", "park", "adopt",
        "break_hold", "inspect",
    }
)  # fmt: skip


class Line:
    """The connection to the engine, which a test can cut."""

    def __init__(self) -> None:
        self.cut = False


class CuttableBackend:
    """A backend whose commands fail while the connection is cut; the engine never gets them."""

    def __init__(self, inner: MemoryBackend, line: Line):
        self._inner = inner
        self._line = line

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in COMMANDS:
            return value

        async def send(*args: Any, **options: Any) -> Any:
            if self._line.cut:
                raise BackendUnavailable("cut off by the test (fail_backend)", backend="memory")
            return await value(*args, **options)

        return send


class TestEngine(MemoryEngine):
    """The memory engine by the clock of the test, behind a connection that can be cut."""

    __test__ = False  # pytest: not a class of tests

    def __init__(self, clock: Clock):
        super().__init__("test", clock.now, clock.wall)
        self.line = Line()

    def blocking(self) -> Any:
        return CuttableBackend(MemoryBackend(self), self.line)

    asyncio = blocking


class SomebodyElse:
    """A hold of somebody who is no part of the program under test."""

    def __init__(self, engine: TestEngine, claim: Claim):
        self._backend = MemoryBackend(engine)
        self._claim = claim
        answer = run(self._backend.attempt(claim, 0.0))
        if isinstance(answer, Busy):
            run(self._backend.release(claim))
            (info,) = run(self._backend.inspect(claim.key))
            held = ", ".join(map(str, info.holders))
            pytest.fail(f"somebody else cannot hold it: it is held by {held}")
        self.fence: int = answer.raw * FENCE_STEP

    def release(self) -> None:
        """They give it back; a second time is nothing."""
        run(self._backend.release(self._claim))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class World:
    """Everything behind the fixtures of one test."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.engine = TestEngine(self.clock)

    def locks(self) -> locknut.Locks:
        """A blocking client of the engine."""
        made = locknut.Locks(self.engine, runtime=FakeThreads(self.clock))
        self.clock.keep_with(made._client)
        return made

    def aio_locks(self) -> aio.Locks:
        """An asyncio client of the engine."""
        made = aio.Locks(self.engine, runtime=FakeLoop(self.clock))
        self.clock.keep_with(made._client)
        return made

    def hold(
        self,
        name: str,
        *,
        mode: Mode = Mode.EXCLUSIVE,
        permits: int = 1,
        ttl: float | None = None,
    ) -> SomebodyElse:
        """Somebody else has it: until released, or until `ttl` has passed."""
        key = f"{DEFAULT_NAMESPACE}:{name}"
        who = "somebody else"
        claim = Claim(key, secrets.token_hex(16), ttl, mode, permits, who=who, label=who)
        return SomebodyElse(self.engine, claim)

    def lose(self, lease: LeaseCore) -> None:
        """The hold is lost, now: the engine gave it up, and the holder was told."""
        lease.check()
        hold = lease._hold
        run(MemoryBackend(self.engine).release(hold.claim))
        losing.lose(lease._client, hold, "taken")
        self.clock.settle()

    @contextmanager
    def fail_backend(self) -> Iterator[None]:
        """The engine cannot be reached until the context ends."""
        self.engine.line.cut = True
        try:
            yield
        finally:
            self.engine.line.cut = False

    def info(self, name: str) -> LockInfo:
        """Who holds this name, as the engine sees it."""
        found = run(MemoryBackend(self.engine).inspect(f"{DEFAULT_NAMESPACE}:{name}"))
        return found[0] if found else LockInfo(name)

    def assert_held(self, name: str) -> None:
        """Fail unless somebody holds this name now."""
        if not self.info(name).locked:
            known = run(MemoryBackend(self.engine).inspect(None))
            names = [each.name.partition(":")[2] for each in known if each.locked]
            pytest.fail(f"nobody holds {name!r}; held are: {names or 'none'}")

    def close(self, *clients: Any) -> None:
        """The test is over: nobody waits any more, keepers end."""
        for client in clients:
            client.closed = client.closed or "the test is over"
            for signal in list(client.waiting):
                signal.notify()
            client.keeper.stop()
        self.clock.settle()
