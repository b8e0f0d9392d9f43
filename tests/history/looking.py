"""What the tests of history share: waiting until something is written, and a slow engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import locknut
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core.ports import Runtime
from locknut.core.values import History
from locknut.errors import BackendUnavailable
from locknut.opening import Settings

PATIENCE = 30.0


def eventually(check: Callable[[], Any], what: str = "it never came to be so") -> Any:
    give_up = time.monotonic() + PATIENCE
    while not (found := check()):
        assert time.monotonic() < give_up, what
        time.sleep(0.01)
    return found


def kinds(entries: Sequence[locknut.HistoryEntry]) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in entries]


class Ledger(MemoryEngine):
    """An engine in memory whose history hangs, fails or loses its answers when a test says so."""

    def __init__(self) -> None:
        super().__init__("ledger")
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Event()
        self.refuses = False
        self.loses_answers = 0
        self.writings = 0
        self.closed = 0

    def blocking(self, runtime: Runtime) -> MemoryBackend:
        return LedgerBackend(self, runtime)


class LedgerBackend(MemoryBackend):
    """One connection to it."""

    def __init__(self, engine: Ledger, runtime: Runtime) -> None:
        super().__init__(engine, runtime)
        self._ledger = engine

    async def write_history(self, stream: str, texts: Sequence[str], keep: int) -> None:
        ledger = self._ledger
        ledger.asked.set()
        assert ledger.open.wait(PATIENCE)
        ledger.writings += 1
        if ledger.refuses:
            raise BackendUnavailable("the ledger is closed", backend="memory")
        await super().write_history(stream, texts, keep)
        if ledger.loses_answers:
            ledger.loses_answers -= 1
            raise BackendUnavailable("no answer", backend="memory")

    async def read_history(self, stream: str, back: float | None = None) -> History:
        return await super().read_history(stream, back)

    async def close(self) -> None:
        self._ledger.closed += 1
        await super().close()


def connect(ledger: Ledger, **settings: Any) -> locknut.Locks:
    return locknut.Locks(ledger, Settings(**settings))
