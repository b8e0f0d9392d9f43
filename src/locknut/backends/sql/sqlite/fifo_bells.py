"""How the waiting claims of one client are woken: by a thread that reads the client's pipe.

The thread is there while somebody waits, and a little longer. Within one process no pipe is needed.
A ring may come before its claim is expected here: so the latest ones are kept for a while.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from locknut.backends.sql.sqlite.fifos import WORD, Fifos
from locknut.core.ports import NEVER, Runtime
from locknut.runtimes import cpython

KEPT: Final = 10.0
"""Seconds for which a ring for nobody is kept, and for which a pipe is new: for a claim that came
into the line before the pipe was there somebody may have rung in vain."""
IDLE: Final = 10.0
"""Seconds without a waiting claim after which the thread ends."""
_READ: Final = 100 * WORD
_NOBODY: Final = "." * (WORD - 1)

_here: WeakValueDictionary[tuple[int, str], FifoBells] = WeakValueDictionary()
"""The clients of this process, by its pid, because a forked child inherits this."""


class FifoBells:
    """The bells of one client."""

    wakes = hasattr(os, "mkfifo")

    def __init__(self, database: str, runtime: Runtime):
        self._fifos = Fifos(database)
        self._runtime = runtime
        self._begin()

    def _begin(self) -> None:
        self.client = self._runtime.new_id()
        self._rings: dict[str, Callable[[], None]] = {}
        self._recent: dict[str, float] = {}
        self._listener: _Listener | None = None
        self._mutex = threading.RLock()  # a finalizer may come back in; no step minds
        _here[os.getpid(), self.client] = self

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:  # noqa: ARG002 -- whose turn it is says the table
        new = claim_id not in self._rings
        self._rings[claim_id] = ring  # before the look at what was rung: `heard` does it reversed
        if new and (self._listen() or claim_id in self._recent):
            ring()

    def _listen(self) -> bool:
        """See that somebody listens; True if that is so new that a ring may have been missed. One
        that has only just been started rings everybody when it has begun.
        """
        if not self.wakes:
            return False
        with self._mutex:
            listener = self._listener
            if listener is None or listener.ended:
                listener = self._listener = _Listener(self, self._fifos, self._runtime)
                listener.start()
        return self._runtime.now() - listener.began < KEPT

    def forget(self, claim_id: str) -> None:
        self._rings.pop(claim_id, None)

    @property
    def waited_for(self) -> bool:
        return bool(self._rings)

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        for client, claim_id in waiting:
            here = _here.get((os.getpid(), client))
            if here is not None:
                here.heard(claim_id)
            else:
                self._fifos.ring(client, claim_id)

    def heard(self, claim_id: str) -> None:
        """From any thread."""
        now = self._runtime.now()
        for old in [each for each, at in list(self._recent.items()) if at + KEPT < now]:
            self._recent.pop(old, None)
        self._recent[claim_id] = now
        ring = self._rings.get(claim_id)
        if ring is not None:
            self._recent.pop(claim_id, None)
            ring()

    def ring_all(self) -> None:
        for ring in list(self._rings.values()):
            ring()

    async def close(self) -> None:
        self.dropped()

    def dropped(self) -> None:
        _here.pop((os.getpid(), self.client), None)
        listener = self._listener
        if listener is not None:
            listener.stop()

    def forked(self) -> None:
        """The pipe is the parent's: only the descriptor goes, and the child is another client."""
        if self._listener is not None:
            self._listener.close()
        self._begin()


class _Listener:
    """The thread, and what it reads."""

    def __init__(self, bells: FifoBells, fifos: Fifos, runtime: Runtime):
        self._bells = bells
        self._fifos = fifos
        self._runtime = runtime
        self._client = bells.client
        self._fd = -1
        self._stopped = False
        self.began = NEVER
        self.ended = False

    def start(self) -> None:
        # Not waited for: an interrupt (Ctrl-C) in that wait may look as if there were no thread.
        thread = cpython.UnawaitedThread(target=self._run, name="locknut-sqlite-bell", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # none to be had: the waiting claims look by themselves
            self.ended = True

    def _run(self) -> None:
        with suppress(OSError):  # no pipe to be had, or a stranger's folder: the same
            self._fd = self._fifos.make(self._client)
            self.began = self._runtime.now()
            self._bells.ring_all()  # somebody may have rung before
            self._attend(self._fd)
        self.ended = True
        self.close()
        self._fifos.remove(self._client)
        if self._bells.waited_for and not self._stopped:
            self._bells.ring_all()  # one came at the last moment, and finds another listener

    def _attend(self, fd: int) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while not self._stopped:
            if poll.poll(IDLE * 1000):
                for word in os.read(fd, _READ).decode("ascii", "replace").split("\n"):
                    if word and word != _NOBODY:
                        self._bells.heard(word)
            elif not self._bells.waited_for:
                return

    def stop(self) -> None:
        """From any thread. The pipe is gone at once, the thread soon."""
        self._stopped = True
        self._fifos.ring(self._client, _NOBODY)
        self._fifos.remove(self._client)

    def close(self) -> None:
        used, self._fd = self._fd, -1  # no call in between: a child of this moment leaks it at most
        if used >= 0:
            with suppress(OSError):
                os.close(used)
