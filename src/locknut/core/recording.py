"""The recorder: takes events in, and writes them into the engine's history behind everybody.

No caller and no renewal ever waits for it. Events go into short queues in memory; a thread of its
own, with a connection of its own, writes them in batches. What does not fit into a queue is counted
and not kept, so a history that is full, slow or out of order costs entries and nothing else. There
are two streams, because a busy lock has thousands of grants for each loss: neither the queue nor
what the engine keeps of troubles is ever filled by routine.

An entry whose writing was not answered is written again. It has an id, by which readers drop the
second one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from locknut.core import pacing
from locknut.core.history_entries import Noted, Reporter, omitted
from locknut.core.runtime_port import NEVER

if TYPE_CHECKING:
    from locknut.core.ports import Backend, Runtime, Signal
    from locknut.core.values import Event

TROUBLES, ROUTINE = "troubles", "routine"
STREAMS = (TROUBLES, ROUTINE)
_TROUBLES = frozenset({"at_risk", "lost", "broken", "abandoned"})
PAUSE = 1.0
"""Seconds from the first event of a batch to its writing."""
LIMIT = 5.0
"""A batch may take this long."""
IDLE = 10.0
"""Without an event for so long, the thread ends and the connection is closed."""
RETRY_FIRST, RETRY_MOST = 1.0, 30.0
REPORTED = 2
"""So many failures in a row are reported, once: one may be two processes that write at the same
moment."""
LAST_TRIES, LAST_PAUSE = 3, 0.05
"""How often, and after which pause, the last batch is tried when the client closes: somebody else
may be writing just then."""


def stream_key(prefix: str, stream: str) -> str:
    """What an engine calls the stream of a namespace."""
    return f"{prefix}history:{stream}"


class EventQueue:
    """What is to be written into one stream: the batch that is under way, and the next one."""

    def __init__(self, most: int, most_of_one: int):
        self._most = most
        self._most_of_one = most_of_one
        """Of one lock: a busy one leaves room for the others."""
        self._next: deque[Noted] = deque()
        self._of_name: dict[str, int] = {}
        self._omitted: dict[str, int] = {}
        self.batch: list[Noted] = []

    def add(self, noted: Noted) -> None:
        event = noted.event
        count = self._of_name.get(event.name, 0)
        if len(self._next) >= self._most or count >= self._most_of_one:
            self._omitted[event.kind] = self._omitted.get(event.kind, 0) + 1
        else:
            self._of_name[event.name] = count + 1
            self._next.append(noted)

    def waiting(self) -> bool:
        return bool(self.batch or self._next or self._omitted)

    def take(self, new_id: Callable[[], str], now: float) -> Sequence[Noted]:
        """The batch to write: the one that was not answered, or else the next."""
        if not self.batch:
            self.batch = list(self._next)
            if self._omitted:
                self.batch.append(Noted(new_id(), now, omitted(self._omitted)))
            self._next, self._of_name, self._omitted = deque(), {}, {}
        return self.batch


class Recorder:
    """Writes the events of one client down. All but `run` may be called by any thread."""

    def __init__(  # noqa: PLR0913  # everything it is made of, each by name
        self,
        *,
        prefix: str,
        keep: int,
        reporter: Reporter,
        runtime: Runtime,
        connect: Callable[[Runtime], Backend],
        start: Callable[[Coroutine[Any, Any, None]], object],
        on_failure: Callable[[Exception], None],
    ):
        self._prefix = prefix
        self._keep = keep
        self._reporter = reporter
        self._runtime = runtime
        self._connect = connect
        self._start = start
        self._on_failure = on_failure
        self._serial = runtime.new_id()[:12]
        self._backend: Backend | None = None
        self.paused = False
        """While a test has fakes in place of the engine: their events are not written."""
        self._begin()

    def _begin(self) -> None:
        self._guard = self._runtime.guard()
        self._wake = self._runtime.signal()
        self._queues = {TROUBLES: EventQueue(500, 50), ROUTINE: EventQueue(100, 10)}
        self._count = 0
        self._due = NEVER
        """When the next batch is written; NEVER while there is nothing to write."""
        self._failures = 0
        self._running = False
        self._closing = False
        self._last_tries = LAST_TRIES
        self._ended: list[Signal] = []

    def record(self, event: Event) -> None:
        """Take an event in: nothing here waits for anybody."""
        if event.kind == "waiting" or self._closing or self.paused:
            return
        with self._guard:
            now = self._runtime.now()
            stream = TROUBLES if event.kind in _TROUBLES else ROUTINE
            self._queues[stream].add(Noted(self._new_id(), now, event))
            if self._due != NEVER:
                return
            self._due = self._after(PAUSE)
            if not self._running:
                self._start_thread()
        self._wake.notify()

    def _after(self, pause: float) -> float:
        """About so much later: not all processes write at the same moment."""
        return self._runtime.now() + pause * (0.75 + self._runtime.random() / 2)

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._serial}-{self._count}"

    def _start_thread(self) -> None:
        """Under the guard, so that the thread that ends and the event that needs one meet.

        Interrupted (Ctrl-C) after the start, a later event starts a second one: readers drop what
        both write.
        """
        work = self.run()
        try:
            self._start(work)
            self._running = True
        except BaseException:  # no thread to be had: a later event tries again
            self._due = NEVER
            with suppress(ValueError):  # it runs already
                work.close()
            raise

    async def run(self) -> None:
        """Write what comes, until nothing has come for a while, or the client closes."""
        backend: Backend | None = None
        ended: list[Signal] | None = None
        try:
            self._backend = backend = self._connect(self._runtime)
            while self._last_tries and ended is None:
                if await self._comes():
                    if not await self._write(backend) and self._closing:
                        self._last_tries -= 1
                    continue
                with self._guard:  # the next event finds a thread that looks, or starts another
                    ended = self._end() if self._due == NEVER else None
        except Exception as error:  # noqa: BLE001  # it is reported: history never harms a lock
            self._on_failure(error)
        finally:
            if ended is None:
                with self._guard:
                    ended = self._end()
            if backend is not None:
                with suppress(Exception):
                    await backend.close()
            for signal in ended:
                signal.notify()

    def _end(self) -> list[Signal]:
        """Under the guard: return whom to tell."""
        self._running, self._due, self._backend = False, NEVER, None
        ended, self._ended = self._ended, []
        return ended

    async def _comes(self) -> bool:
        """Sleep until a batch is due; False when there is none to expect."""
        rested = False
        while True:
            due, now = self._due, self._runtime.now()
            if due == NEVER and (self._closing or rested):
                return False
            at_once = self._closing and self._last_tries == LAST_TRIES
            if due != NEVER and (at_once or now >= due):
                return True
            rung = await self._wake.wait(min(due, now + IDLE))
            rested = due == NEVER and not rung

    async def _write(self, backend: Backend) -> bool:
        try:
            for stream, queue in self._queues.items():
                with self._guard:
                    now = self._runtime.now()
                    batch = queue.take(self._new_id, now)
                if batch:
                    texts = [noted.text(self._reporter, now) for noted in batch]
                    key = stream_key(self._prefix, stream)
                    work = backend.write_history(key, texts, self._keep)
                    await self._runtime.finish(work, now + LIMIT)
                    queue.batch = []
        except Exception as error:  # noqa: BLE001  # as above
            self._failures += 1
            if self._failures == REPORTED:
                self._on_failure(error)
            pause = min(RETRY_MOST, RETRY_FIRST * 2.0 ** min(self._failures - 1, 10))
            pause = LAST_PAUSE if self._closing else pause
            with self._guard:
                self._due = self._after(pause)
            return False
        self._failures = 0
        with self._guard:
            waiting = any(queue.waiting() for queue in self._queues.values())
            self._due = self._after(PAUSE) if waiting else NEVER
        return True

    def hurry(self) -> None:
        """Write what is left now, take in no more, and end."""
        self._closing = True
        self._wake.notify()

    async def close(self, runtime: Runtime, until: float | None = None) -> None:
        """The same, and wait for the end for a short time, the way this runtime waits."""
        ended = runtime.signal()
        with self._guard:
            running = self._running
            self._ended.append(ended)
        self.hurry()
        if running:
            await ended.wait(runtime.now() + pacing.FLUSH if until is None else until)

    def leave_behind(self) -> None:
        """In a forked child: the thread is not there, and what it had to write is the parent's."""
        if self._backend is not None:
            self._backend.forked()
            self._backend = None
        self._begin()
        self._closing = True
