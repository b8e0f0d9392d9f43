"""One simulated process: its own clock, its tasks, and how it is stopped or killed."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from locknut.core.callers import Caller
from tests.simulation.checker.history import Kind
from tests.simulation.coroutines import Died, Future, Left, Shield, Task, to_the_end

if TYPE_CHECKING:
    from locknut.core.ports import Sender
    from tests.simulation.world import World

T = TypeVar("T")


class Clock:
    """Runs at its own rate, from its own zero; never steps unless told."""

    def __init__(self, offset: float = 0.0, rate: float = 1.0) -> None:
        self.offset = offset
        self.rate = rate

    def read(self, true: float) -> float:
        return self.offset + true * self.rate

    def true(self, own: float) -> float:
        """The first moment at which this clock shows at least that."""
        true = (own - self.offset) / self.rate
        while self.read(true) < own:
            true = math.nextafter(true, math.inf)
        return true


class Process:
    """Tasks that live, stop and die together."""

    running: ClassVar[Process | None] = None
    """Whose step it is."""

    def __init__(self, world: World, name: str, clock: Clock) -> None:
        self.world = world
        self.name = name
        self.clock = clock
        self.entropy = Random(name)
        """For its names: apart from the world's chance, which decides what happens."""
        self.dead = False
        self.stopped = False
        self.tasks: list[Task] = []
        self.files: dict[int, Any] = {}
        """What it has open, by number, where an engine's own connections run."""
        self.loop: Any = None
        """Its event loop, where they run on one."""
        self._held_up: list[Callable[[], None]] = []
        self._on_end: dict[Callable[[], None], None] = {}

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> Task | None:
        if self.dead:
            work.close()
            return None
        task = Task(self, work, f"{self.name}/{name}")
        self.tasks = [known for known in self.tasks if not known.done or known.error]
        self.tasks.append(task)
        return task

    def soon(self, call: Callable[[], None]) -> None:
        self.world.soon(lambda: self._run(call))

    def at(self, own: float, call: Callable[[], None]) -> Callable[[], None]:
        """A timer on this process's clock; returns how to call it off."""
        return self.world.at(self.clock.true(own), lambda: self._run(call))

    def now(self) -> float:
        return self.clock.read(self.world.now)

    def true(self, own: float) -> float | None:
        """A moment of this clock on the clock of the history; None: never."""
        return None if own == float("inf") else self.clock.true(own)

    def tell(
        self, kind: Kind, name: str = "", hold: str = "", **more: Any
    ) -> None:  # an Event's fields
        if not self.dead:
            self.world.tell(self.name, kind, name, hold, **more)

    def stop(self) -> None:
        """As by SIGSTOP: nothing runs, time goes on."""
        if not self.dead and not self.stopped:
            self.tell(Kind.PAUSED)
            self.stopped = True

    def resume(self) -> None:
        if self.dead or not self.stopped:
            return
        self.stopped = False
        self.tell(Kind.RESUMED)
        held_up, self._held_up = self._held_up, []
        for call in held_up:
            self.soon(call)

    def on_end(self, call: Callable[[], None]) -> None:
        """What its machine does when it is gone, as closing its sockets."""
        self._on_end[call] = None

    def not_on_end(self, call: Callable[[], None]) -> None:
        self._on_end.pop(call, None)

    def crash(self) -> None:
        """As by SIGKILL: nothing of it runs any more, and nothing is told."""
        self.tell(Kind.CRASHED)
        self.end()

    def end(self) -> None:
        self.dead = True
        self._held_up.clear()
        for call in list(self._on_end):
            call()
        for task in self.tasks:
            if not task.done:
                task.vanish()

    def _run(self, call: Callable[[], None]) -> None:
        if self.stopped and not self.dead:
            self._held_up.append(call)
        elif not self.dead:
            self.does(call)

    def does(self, call: Callable[[], T]) -> T:
        """A step of this process: the clocks that it looks at are its own."""
        Process.running = self
        try:
            return call()
        finally:
            Process.running = None


class SimSignal:
    """A ring that stays until it is used up, as an Event that is cleared by whoever it woke."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._rung = False
        self._waiters: list[Future[bool]] = []

    def notify(self) -> None:
        self._rung = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.resolve(True)

    async def wait(self, until: float) -> bool:
        if self._process.dead:
            raise Died
        while not self._rung:
            if self._process.now() >= until:
                return False
            await self._ring_or(until)
        self._rung = False
        return True

    async def _ring_or(self, until: float) -> None:
        ring: Future[bool] = Future()
        self._waiters.append(ring)
        call_off = self._process.at(until, lambda: ring.resolve(False)) if until < 1e12 else None
        try:
            await ring
        finally:
            if call_off is not None:
                call_off()
            if ring in self._waiters:
                self._waiters.remove(ring)


class SimGuard:
    """A mutex that must never be waited for: each step of the world is alone, so it is free."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held = False

    def __enter__(self) -> None:
        if self._held:
            raise AssertionError("the guard was taken twice: a real mutex would hang here")
        self._held = True
        self._world.guards_held += 1

    def __exit__(self, *_: object) -> None:
        self._held = False
        self._world.guards_held -= 1

    def inside(self) -> bool:
        return False  # no code of others runs in the middle of a step


class SimRuntime:
    """The Runtime of `core.ports` for the tasks of one process."""

    elsewhere = False

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._nobody = Caller(process.name)

    def now(self) -> float:
        return self._process.now()

    def signal(self) -> SimSignal:
        return SimSignal(self._process)

    def guard(self) -> SimGuard:
        return SimGuard(self._world)

    async def finish(
        self, work: Coroutine[Any, Any, T], until: float = math.inf, sender: Sender | None = None
    ) -> T:
        if self._process.dead:
            work.close()
            raise Died
        shield = Shield(self._process, until)
        try:
            return await shield.finish(work)
        except Left as left:
            why = left
        finally:
            shield.call_off()
        ended: Future[None] = Future()
        if sender is not None:
            sender.unfinished = ended
        self._process.spawn(to_the_end(work, why.awaited, ended), "left behind")
        raise why.told

    async def settle(self, until: float) -> None:
        """Simulated clients are never closed."""

    def begins_to_wait(self) -> None:
        """Nobody else is held up."""

    def deadline(self) -> float:
        return math.inf

    def caller(self) -> Caller:
        return self._world.current.caller if self._world.current else self._nobody

    def alive(self, caller: Caller | None) -> bool:
        return any(task.caller is caller and not task.done for task in self._process.tasks)

    def at_home(self) -> bool:
        return True

    def forked(self) -> None:
        """Simulated processes do not fork."""

    def new_id(self) -> str:
        return f"{self._world.random.getrandbits(128):032x}"

    def random(self) -> float:
        return self._world.random.random()

    def aside(self, call: Callable[[], object]) -> None:
        async def alone() -> None:
            call()

        self._process.spawn(alone(), "aside")
