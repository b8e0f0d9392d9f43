"""What befalls processes, tasks and the engine, and when: drawn from the seed, for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.memory.node import Node
    from tests.simulation.network import Faults
    from tests.simulation.process import Process
    from tests.simulation.world import World


class Chaos:
    """Strikes at random moments until it is told to end."""

    def __init__(
        self,
        world: World,
        node: Node,
        alive: Callable[[], list[Process]],
        replace: Callable[[Process], None],
    ) -> None:
        self._world = world
        self._node = node
        self._alive = alive
        self._replace = replace
        self._over = False

    def begin(self, faults: Faults) -> None:
        strikes = (
            (faults.engine_restarts, lambda: self._restart(faults.data_lost)),
            (faults.clock_set_back, self._set_back),
            (faults.processes_stop, self._stop),
            (faults.processes_crash, self._crash),
            (faults.tasks_cancelled, self._cancel),
            *self._node.strikes(faults),
        )
        for rate, strike in strikes:
            if rate:
                self._strike_later(rate, strike)

    def end(self) -> None:
        self._over = True

    def _strike_later(self, rate: float, strike: Callable[[], None]) -> None:
        def now() -> None:
            if not self._over:
                strike()
                self._strike_later(rate, strike)

        self._world.after(self._world.random.expovariate(rate), now)

    def _restart(self, data_lost: float) -> None:
        keep = not self._world.chance(data_lost)
        self._node.restart(keep_data=keep, away=self._world.random.choice((0.01, 0.3, 2.0)))

    def _set_back(self) -> None:
        self._node.set_back(self._world.random.uniform(0, 20))

    def _stop(self) -> None:
        process = self._some_process()
        if process is not None and not process.stopped:
            self._world.faults["processes_stop"] += 1
            process.stop()
            self._world.after(self._world.random.choice((0.05, 0.4, 1.0, 4.0)), process.resume)

    def _crash(self) -> None:
        process = self._some_process()
        if process is not None:
            self._world.faults["processes_crash"] += 1
            process.crash()
            self._replace(process)

    def _cancel(self) -> None:
        process = self._some_process()
        workers = [task for task in process.tasks if "work" in task.name] if process else []
        if not workers:
            return
        task = self._world.random.choice(workers)
        if self._world.chance(0.5):
            task.cancel()
        else:
            task.cancel_when_woken()

    def _some_process(self) -> Process | None:
        alive = self._alive()
        return self._world.random.choice(alive) if alive else None
