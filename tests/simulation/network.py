"""What may befall a message: how late it comes, whether it comes, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each fault is: per message, or how often in a second."""

    request_lost: float = 0.0
    reply_lost: float = 0.0
    duplicated: float = 0.0
    """Applied twice before it is answered, as by a connection that sends again."""
    slow: float = 0.0
    """Late, but the answer still comes in time."""
    late: float = 0.0
    """Long after the sender gave up: stuck in a dead connection, applied all the same (L3)."""
    ring_lost: float = 0.0
    engine_restarts: float = 0.0
    data_lost: float = 0.0
    """Of the engine's restarts, those that forget everything."""
    clock_set_back: float = 0.0
    """The engine's wall clock; the one that ttls are measured by never steps."""
    processes_stop: float = 0.0
    processes_crash: float = 0.0
    tasks_cancelled: float = 0.0
    drift: float = 0.0
    """How wrong clocks run, at most, each way."""

    @property
    def fences_outlive_both(self) -> bool:
        """Whether they stay in order though data are lost and a clock is set back."""
        return False


@dataclass(frozen=True, slots=True)
class StoreFaults(Faults):
    """What may befall the core's own engine besides."""

    older_state: float = 0.0
    """A restart from a snapshot: what happened since then is forgotten, what had ended is back."""


CALM = Faults()
LOSSES = ("data_lost", "emptied", "keys_deleted", "older_state", "lagging_replica")
OF_MESSAGES = ("request_lost", "reply_lost", "slow", "late")
EVERYTHING = StoreFaults(
    request_lost=0.05,
    reply_lost=0.05,
    duplicated=0.05,
    slow=0.1,
    late=0.02,
    ring_lost=0.3,
    engine_restarts=0.1,
    data_lost=0.4,
    clock_set_back=0.05,
    processes_stop=0.3,
    processes_crash=0.05,
    tasks_cancelled=1.0,
    drift=0.004,
    older_state=0.05,
)


def swarm(random: Random, everything: Faults = EVERYTHING) -> Faults:
    """Some of the faults, each at a rate of its own: subsets find what the full set hides."""
    rates = {
        name: getattr(everything, name) * random.uniform(0.2, 2.0) if random.random() < 0.5 else 0.0
        for name in everything.__dataclass_fields__
    }
    rates["drift"] = everything.drift if random.random() < 0.5 else 0.0
    if everything.fences_outlive_both:
        return replace(everything, **rates)
    # Lost data and a clock that was set back may together take fences back: the docs say so.
    if rates["clock_set_back"] and rates["drift"]:
        rates.update({loss: 0.0 for loss in LOSSES if loss in rates})
    elif any(rates.get(loss) for loss in LOSSES):
        rates["clock_set_back"] = 0.0
    return replace(everything, **rates)


class Network:
    """Delivers messages, or not."""

    def __init__(self, world: World, faults: Faults, latest: float = 7.0) -> None:
        self.world = world
        self._latest = latest
        """Seconds after which nothing comes any more."""
        self.faults = faults
        self._parts: list[Network] = []

    def part(self, weight: float, latest: float) -> Network:
        """The way to one of several servers, which is better or worse than others."""
        faults = self.faults
        rates = {name: min(0.9, getattr(faults, name) * weight) for name in OF_MESSAGES}
        part = Network(self.world, replace(faults, **rates), latest)
        self._parts.append(part)
        return part

    def calm_down(self) -> None:
        self.faults = replace(CALM, drift=self.faults.drift)
        for part in self._parts:
            part.calm_down()

    def request(self, deliver: Callable[[], None]) -> None:
        self._send(deliver, "request_lost")

    def reply(self, deliver: Callable[[], None]) -> None:
        self._send(deliver, "reply_lost")

    def ring(self, deliver: Callable[[], None]) -> None:
        self._send(deliver, "ring_lost")

    def twice(self) -> bool:
        return self.befalls("duplicated")

    def _send(self, deliver: Callable[[], None], loss: str) -> None:
        if not self.befalls(loss):
            self.world.after(self.delay(), deliver)

    def delay(self) -> float:
        random = self.world.random
        if self.befalls("late"):
            return random.uniform(1.0, self._latest)
        if self.befalls("slow"):
            return random.uniform(0.01, 0.24)
        return random.uniform(0.0002, 0.003)

    def befalls(self, name: str) -> bool:
        happens = self.world.chance(getattr(self.faults, name, 0.0))  # none of its own once calm
        if happens:
            self.world.faults[name] += 1
        return happens
