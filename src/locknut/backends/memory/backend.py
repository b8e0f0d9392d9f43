"""The memory engine's two colours, which are one: its commands never wait and never suspend."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from locknut.backends.memory.store import Store
from locknut.core import validation
from locknut.core.base import BaseBackend, BaseEngine
from locknut.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Granted,
    History,
    Holder,
    LockInfo,
    Notice,
)
from locknut.runtimes.threads import Guard

if TYPE_CHECKING:
    from locknut.core.ports import Runtime, Signal
    from locknut.urls import Url

CAPABILITIES = frozenset(
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
        Capability.LEASE,
        Capability.SESSION,
        Capability.NO_EVICTION,
        Capability.HISTORY,
    }
)


class MemoryEngine(BaseEngine):
    """One lock service of this process. All who have the same engine share its locks."""

    def __init__(
        self,
        name: str = "",
        wall: Callable[[], float] = time.time,
    ):
        self.id = f"memory:{name}"
        self._wall = wall
        self._reset()

    def _reset(self) -> None:
        self.pid = os.getpid()
        self.mutex = Guard()
        self.signals: dict[str, Signal] = {}
        self.listeners: list[Callable[[str | None, Notice], None]] = []
        self.streams: dict[str, deque[tuple[float, str]]] = {}
        """What happened, for `history`."""
        self.store = Store(self._wall, self._ring, self._tell, self._gone)

    def blocking(self, runtime: Runtime) -> MemoryBackend:
        return MemoryBackend(self, runtime)

    def asyncio(self, runtime: Runtime) -> MemoryBackend:
        return MemoryBackend(self, runtime)

    def forked(self) -> None:
        """The child starts with an empty service: the parent's holds are the parent's."""
        if self.pid != os.getpid():
            self._reset()

    def _ring(self, claim_id: str) -> None:
        signal = self.signals.get(claim_id)
        if signal is not None:
            signal.notify()

    def _gone(self, claim_id: str) -> bool:
        """Whether nobody waits with this claim any more: its loop was closed."""
        signal = self.signals.get(claim_id)
        gone: bool = getattr(signal, "gone", False)
        if gone:
            self.signals.pop(claim_id, None)
        return gone

    def write(self, stream: str, texts: Sequence[str], keep: int) -> None:
        if not keep:
            self.streams.pop(stream, None)
            return
        now = self._wall()
        kept = self.streams.get(stream, ())
        self.streams[stream] = deque((*kept, *((now, text) for text in texts)), keep)

    def read(self, stream: str, back: float | None) -> History:
        now = self._wall()
        oldest = -math.inf if back is None else now - back
        return History(now, [each for each in self.streams.get(stream, ()) if each[0] >= oldest])

    def _tell(self, claim_id: str, what: Notice) -> None:
        for listener in list(self.listeners):
            listener(claim_id, what)


class MemoryBackend(BaseBackend):
    """One client's door to the engine."""

    name = "memory"
    capabilities = CAPABILITIES
    default_ttl: float | None = None
    min_ttl = 0.01
    max_ttl = 10 * 365 * 86400.0
    batches = True
    passes_notes = True

    def __init__(self, engine: MemoryEngine, runtime: Runtime):
        self._engine = engine
        self._now = runtime.now
        self.inside = engine.mutex.inside
        self._listener: Callable[[str | None, Notice], None] | None = None

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002  # never waits
        engine = self._engine
        with engine.mutex:
            return engine.store.attempt(claim, self._now())

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Notice]:
        engine = self._engine
        with engine.mutex:
            now = self._now()
            return [engine.store.renew(claim, now) for claim in claims]

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        engine = self._engine
        with engine.mutex:
            return engine.store.release(claim, self._now(), outcome_unknown=outcome_unknown)

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        engine = self._engine
        with engine.mutex:
            return engine.store.attempt_all(claims, self._now())

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        engine = self._engine
        with engine.mutex:
            now = self._now()
            return [
                engine.store.release(claim, now, outcome_unknown=outcome_unknown)
                for claim in claims
            ]

    async def downgrade(self, claim: Claim) -> bool:
        engine = self._engine
        with engine.mutex:
            return engine.store.downgrade(claim, self._now())

    async def detach(self, claim: Claim, ttl: float) -> bool:
        engine = self._engine
        with engine.mutex:
            return engine.store.detach(claim, ttl, self._now())

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        engine = self._engine
        with engine.mutex:
            return engine.store.attach(detached, claim, self._now())

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        engine = self._engine
        with engine.mutex:
            return engine.store.break_hold(key, raw, self._now(), note)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        engine = self._engine
        with engine.mutex:
            found = engine.store.inspect(key, self._now())
        return [_placed(each) for each in found]

    async def write_history(self, stream: str, texts: Sequence[str], keep: int) -> None:
        with self._engine.mutex:
            self._engine.write(stream, texts, keep)

    async def read_history(self, stream: str, back: float | None = None) -> History:
        with self._engine.mutex:
            return self._engine.read(stream, back)

    @contextmanager
    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> Iterator[Signal]:
        wake = self._engine.signals[claim.id] = signal()
        try:
            yield wake
        finally:
            self._engine.signals.pop(claim.id, None)

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self._listener = on_notice
        self._engine.listeners.append(on_notice)

    async def close(self) -> None:
        if self._listener in self._engine.listeners:
            self._engine.listeners.remove(self._listener)

    def forked(self) -> None:
        self._engine.forked()
        self.inside = self._engine.mutex.inside


def _placed(info: LockInfo) -> LockInfo:
    """Everybody here is in this process."""
    host, pid = socket.gethostname(), os.getpid()

    def place(each: Holder) -> Holder:
        return each._replace(host=host, pid=pid)

    holders = tuple(place(each) for each in info.holders)
    return info._replace(holders=holders, waiters=tuple(place(each) for each in info.waiters))


_named: weakref.WeakValueDictionary[str, MemoryEngine] = weakref.WeakValueDictionary()
_naming = threading.Lock()


def open_engine(url: Url) -> MemoryEngine:
    """`memory:` is one engine for the process, `memory:name` another one."""
    validation.check_options("memory", url.options, ())
    with _naming:  # or two first callers would have one each, and both the lock
        engine = _named.get(url.path)
        if engine is None:
            engine = _named[url.path] = MemoryEngine(url.path)
        return engine


def _after_fork() -> None:
    global _naming  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _naming = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
