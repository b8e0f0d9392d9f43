"""What one test of the suite works with: clients of the engine, strangers, events, and order.

When the test is over every client is closed, and the engine must then hold nothing of it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from locknut import opening
from locknut.core.ports import Backend, Engine, Runtime
from locknut.core.values import Capability, Claim, Event, Granted, Mode
from locknut.errors import BackendUnavailable
from locknut.runtimes import clock
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance.colours import GLANCE, PATIENCE, Colour, Gate, Work, Worker
from locknut.testing.conformance.retries import RetryingPort

SHORT_TTL = 0.4
SAFE_TTL = 3.0


class News:
    """The events of one Locks, in order."""

    def __init__(self, colour: Colour, locks: Any):
        self.events: list[Event] = []
        self._colour = colour
        self._mutex = threading.Lock()
        self._expected: list[tuple[str, int, Gate]] = []
        self.stop: Callable[[], None] = locks.on_event(self._hear)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def _hear(self, event: Event) -> None:
        with self._mutex:
            self.events.append(event)
            for kind, times, gate in self._expected:
                if self.kinds().count(kind) >= times:
                    gate.open()

    async def heard(self, kind: str, times: int = 1) -> Event:
        """Wait until this kind of event came that often; return the latest of them."""
        gate = self._colour.gate()
        with self._mutex:
            self._expected.append((kind, times, gate))
            if self.kinds().count(kind) >= times:
                gate.open()
        assert await gate.passed(), f"{kind} was not told {times} times: {self.kinds()}"
        return next(event for event in reversed(self.events) if event.kind == kind)


class Scene:
    """One test's view of the engine, in one colour."""

    def __init__(self, colour: Colour, open_engine: Callable[[], Engine], namespace: str):
        self.colour = colour
        self.namespace = namespace
        self.gate = colour.gate
        self.pause = colour.pause
        self.now = clock.now
        self._open_engine = open_engine
        self._engine = open_engine()  # keeps what lives as long as its users: `memory:` does
        self._opened: list[Any] = []
        self._ports: list[Backend] = []
        probe = self._engine.blocking(ThreadRuntime())
        self.capabilities = probe.capabilities
        self.backend = probe.name
        self.ttl = min(max(SHORT_TTL, probe.min_ttl), probe.max_ttl)
        """The shortest ttl that is neither too short for the engine nor for a busy machine."""
        self.safe_ttl = min(max(SAFE_TTL, probe.min_ttl), probe.max_ttl)
        """For what must not run out, though the machine may be too busy to renew it in time."""
        self.limits = probe.min_ttl, probe.max_ttl
        self.passes_notes = probe.passes_notes
        """Whether the holder of a broken lock can learn who broke it, and why."""
        colour.run(probe.close()) if colour.name == "blocking" else self._ports.append(probe)

    def has(self, capability: Capability) -> bool:
        return capability in self.capabilities

    def connect(self, **settings: Any) -> Any:
        """Another client of the engine, as another process would have one; closed at the end."""
        chosen = opening.Settings(**{"namespace": self.namespace, **settings})
        locks = self.colour.locks(self._open_engine(), chosen)
        self._opened.append(locks)
        return locks

    def news(self, locks: Any) -> News:
        return News(self.colour, locks)

    def spawn(self, work: Callable[[], Work]) -> Worker:
        return self.colour.spawn(work)

    def port(self) -> Backend:
        """The engine as the core sees it, and asks it again."""
        backend = self.colour.backend(self._open_engine())
        self._ports.append(backend)
        return cast("Backend", RetryingPort(backend, self.pause))

    def runtime(self) -> Runtime:
        return self.colour.runtime()

    def claim(self, name: str, **facts: Any) -> Claim:
        """A claim as the core would make it."""
        facts.setdefault("ttl", self._long_ttl())
        return Claim(f"{self.namespace}:{name}", secrets.token_hex(16), **facts)

    def _long_ttl(self) -> float | None:
        return min(PATIENCE * 2, self.limits[1]) if self.has(Capability.LEASE) else None

    @asynccontextmanager
    async def stranger(
        self, name: str, mode: Mode = Mode.EXCLUSIVE, ttl: float | None = None
    ) -> AsyncIterator[Granted]:
        """Let a client outside this process hold it; that client never renews."""
        port = self.port()
        claim = self.claim(name, mode=mode, ttl=ttl or self._long_ttl(), label="a stranger")

        async def ask() -> Granted | None:
            answer = await port.attempt(claim, 0.0)
            return answer if isinstance(answer, Granted) else None

        granted = await self.eventually(ask, f"the stranger never got {name!r}")
        try:
            yield granted
        finally:
            await port.release(claim)

    async def eventually(self, check: Callable[[], Awaitable[object]], what: str = "") -> Any:
        """Look until it is so: only for what has no event of its own."""
        give_up = self.now() + PATIENCE
        while True:
            found = await check()
            if found:
                return found
            assert self.now() < give_up, what or f"never came true: {check}"
            await self.pause(GLANCE)

    async def free(self, locks: Any, name: str) -> None:
        """A newcomer can have the name, as soon as nobody is clearing up any more."""

        async def try_it() -> bool:
            with suppress(BackendUnavailable):  # a caller that was cancelled has no answer yet
                lease = await locks.lock(name).acquire(blocking=False)
                if lease is not None:
                    await lease.release()
                return lease is not None
            return False

        await self.eventually(try_it, f"{name!r} never became free")

    async def hang_up(self) -> None:
        """Everybody leaves."""
        for locks in self._opened:
            await locks.close()
        for port in self._ports:
            with suppress(RuntimeError):
                await port.close()

    async def close(self) -> None:
        """Everybody leaves; then the engine must be empty."""
        await self.hang_up()
        last = self.colour.locks(self._open_engine(), opening.Settings(self.namespace))

        async def nothing_left() -> bool:
            with suppress(BackendUnavailable):  # on a busy machine an answer may come too late
                return not await last.list()
            return False

        await self.eventually(nothing_left, "something was left behind in the engine")
        await last.close()
