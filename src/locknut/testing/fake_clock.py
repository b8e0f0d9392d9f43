"""A clock that stands still until a test moves it, and runtimes that wait by it.

`advance` stops at every moment that somebody waits for, in order, and lets the keeper finish there:
renewals, expiries and callbacks have happened when it returns. Nothing sleeps.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from locknut.core.client import Client
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run

START = 1_000_000.0
PATIENCE = 5.0
"""Real seconds a keeper may take for what is due; it never does."""
COURTESY = 1.0
"""Real seconds a user's callback may take before the clock goes on without it."""
GRACE = 0.03
"""Real seconds others get to act before a wait of the test itself moves the clock."""
PATIENT_JUMPS = 8
"""So often; then it is clear that nobody else is going to act."""
OURS = "locknut-"
TURNS = 50
"""How many turns of the loop a woken task and those behind it get."""


class Sleeper(Protocol):
    """A waiter for a moment of this clock."""

    rung: bool

    def due(self) -> None:
        """The moment is there."""


class Clock:
    """The clock of every fake lock in a test. Only the test moves it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.changed = threading.Condition(threading.RLock())
        self.asleep: dict[Sleeper, float] = {}
        self._now = START
        self._keepers: dict[Sleeper, int] = {}
        self._callbacks = 0
        self._jumps = 0
        self.settling = 0
        """How many tasks are in `settled`."""
        self.moves = 0
        """How often the test has moved it."""

    def now(self) -> float:
        """Return the time in seconds, from an arbitrary start, as Locknut's own clock does."""
        return self._now

    def wall(self) -> float:
        """Return seconds since the epoch: a day in 2023, the same in every run."""
        return 1.7e9 + self._now - START

    def forked(self) -> None:
        """In a forked child: those who waited, or were at work, are threads of the parent."""
        self.changed = threading.Condition(threading.RLock())
        self.asleep.clear()
        self._keepers.clear()
        self._callbacks = 0

    def advance(self, seconds: float) -> None:
        """Let time pass. Everything that falls due happens, in order, before this returns.

        Tasks of an event loop run at the next await: `await clock.settled()` lets all of them run.
        """
        if seconds < 0:
            raise ValueError(f"time does not run backwards, got {seconds!r}")
        until = self._now + seconds
        self.moves += 1
        self.stirred()
        self.settle()
        while (moment := self._next()) <= until:
            self._move(moment)
        self._move(until)

    async def settled(self) -> None:
        """Let the tasks that became due run, and everything that they start."""
        self.settling += 1
        try:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        finally:
            self.settling -= 1
        self.settle()

    def settle(self) -> None:
        """Let keepers and callbacks finish what they are at."""
        with self.changed:
            self.changed.wait_for(lambda: not self._busy_keepers(), PATIENCE)
            self.changed.wait_for(lambda: not self._callbacks, COURTESY)

    def jump(self, sleeper: Sleeper) -> None:
        """The test itself waits, so nobody else will move the clock: on to the next moment."""
        self._jumps += 1
        self.settle()
        with self.changed:
            moment = self._next()
            if not sleeper.rung and moment != float("inf"):
                self._move(moment)

    def stirred(self) -> None:
        """Somebody else does act: be patient again."""
        self._jumps = 0

    def grace(self) -> float:
        """How long to let others act before the next jump."""
        return GRACE if self._jumps < PATIENT_JUMPS else 0.0

    def _next(self) -> float:
        with self.changed:
            later = (until for until in self.asleep.values() if until > self._now)
            return min(later, default=float("inf"))

    def _move(self, moment: float) -> None:
        with self.changed:
            self._now = max(self._now, moment)
            for sleeper, until in list(self.asleep.items()):
                if until <= self._now:
                    sleeper.due()
            self.changed.notify_all()
        self.settle()

    def _busy_keepers(self) -> bool:
        return any(
            running and (wake.rung or self.asleep.get(wake, self._now) <= self._now)
            for wake, running in self._keepers.items()
        )

    def keep_with(self, client: Client) -> None:
        """Have this client's keeper live by this clock, and be waited for."""
        keeper = client.keeper
        keeper.runtime = FakeThreads(self)
        keeper.runtime.aside = self.aside  # callbacks of the keeper's own
        wake = keeper.wake = keeper.runtime.signal()
        self._keepers[wake] = 0
        keeper._start = lambda work: self._start_keeper(wake, work)

    def _start_keeper(self, wake: Sleeper, work: Coroutine[Any, Any, None]) -> None:
        with self.changed:
            self._keepers[wake] += 1
        threading.Thread(
            target=self._keep, args=(wake, work), name=f"{OURS}keeper", daemon=True
        ).start()

    def _keep(self, wake: Sleeper, work: Coroutine[Any, Any, None]) -> None:
        try:
            run(work)
        finally:
            with self.changed:
                self._keepers[wake] -= 1
                self.changed.notify_all()

    def aside(self, call: Callable[[], object]) -> None:
        """A user's callback: on a thread of its own, and waited for by `settle`."""
        with self.changed:
            self._callbacks += 1
        threading.Thread(
            target=self._call, args=(call,), name=f"{OURS}callbacks", daemon=True
        ).start()

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        finally:
            with self.changed:
                self._callbacks -= 1
                self.changed.notify_all()


class FakeThreadSignal:
    """A ring that a thread waits for by the clock of the test."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self.rung = False

    def notify(self) -> None:
        with self._clock.changed:
            self.rung = True
            self._clock.changed.notify_all()

    def due(self) -> None:
        """Nothing to do: waiters look at the clock whenever something changes."""

    async def wait(self, until: float) -> bool:
        clock = self._clock
        with clock.changed:
            clock.asleep[self] = until
            clock.changed.notify_all()
            try:
                while not self.rung and clock.now() < until:
                    self._sleep()
            finally:
                del clock.asleep[self]
            rung, self.rung = self.rung, False
        if rung:
            clock.stirred()
        return rung

    def _sleep(self) -> None:
        clock = self._clock
        if threading.get_ident() != clock.thread:
            clock.changed.wait()
        elif not clock.changed.wait_for(lambda: self.rung, clock.grace()):
            clock.jump(self)


class FakeLoopSignal:
    """The same for a task."""

    def __init__(self, clock: Clock, runtime: FakeLoop):
        self._clock = clock
        self._runtime = runtime
        self._future: asyncio.Future[None] | None = None
        self._timer: asyncio.Handle | None = None
        self.rung = False

    def notify(self) -> None:
        if not self._runtime.bound:
            self.rung = True  # as in `LoopSignal`
        self._runtime.on_loop(self._ring)

    def _ring(self) -> None:
        self.rung = True
        self._wake()

    def due(self) -> None:
        self._runtime.on_loop(self._wake)

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, until: float) -> bool:
        loop = self._runtime.loop  # first, as in `LoopSignal`
        if not self.rung and self._clock.now() < until:
            self._future = loop.create_future()
            self._clock.asleep[self] = until
            self._timer = loop.call_later(self._clock.grace(), self._let_others_act)
            try:
                await self._future
            finally:
                self._timer.cancel()
                self._future = None
                del self._clock.asleep[self]
        rung, self.rung = self.rung, False
        if rung:
            self._clock.stirred()
        return rung

    def _let_others_act(self, turns: int = TURNS, moves: int = -1) -> None:
        """Jump once the loop has gone round `turns` times and the test has not moved the clock.
        Seconds alone do not show that: on a busy machine they pass between two lines of the test.
        """
        clock, loop = self._clock, asyncio.get_running_loop()
        if self._future is None or self._future.done():
            return
        if clock.settling or moves not in {-1, clock.moves}:
            self._timer = loop.call_later(GRACE, self._let_others_act)
        elif turns:
            self._timer = loop.call_soon(self._let_others_act, turns - 1, clock.moves)
        else:
            clock.jump(self)
            self._timer = loop.call_later(clock.grace(), self._let_others_act)


class FakeThreads(ThreadRuntime):
    """The blocking colour, by the clock of the test."""

    def __init__(self, clock: Clock):
        super().__init__(clock.now)
        self._clock = clock
        self.aside = clock.aside

    def signal(self) -> FakeThreadSignal:  # type: ignore[override]  # the same port
        return FakeThreadSignal(self._clock)


class FakeLoop(LoopRuntime):
    """The asyncio colour, by the clock of the test."""

    def __init__(self, clock: Clock):
        super().__init__(clock.now)
        self._clock = clock

    def signal(self) -> FakeLoopSignal:  # type: ignore[override]  # the same port
        return FakeLoopSignal(self._clock, self)
