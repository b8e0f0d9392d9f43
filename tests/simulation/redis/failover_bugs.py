"""Another server becomes the master, while the old one lives on for who is connected to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from locknut.drivers.redis.endpoints import Latest
from locknut.drivers.redis.settings import Settings
from tests.simulation.bugs import Bug
from tests.simulation.checker.history import Kind
from tests.simulation.memory.node import Order
from tests.simulation.network import Faults
from tests.simulation.process import Process
from tests.simulation.redis.bug_kinds import believed
from tests.simulation.redis.engine import REDIS
from tests.simulation.redis.faults import RedisFaults
from tests.simulation.redis.node import RedisNode
from tests.simulation.redis.sync import Connection, Dial, SimBlocking
from tests.simulation.variant import Patch

DEMOTED_AFTER = (1.0, 4.0)
"""Seconds for which an old master goes on: until its Sentinels reach it."""


@dataclass(frozen=True, slots=True)
class SuccessionFaults(RedisFaults):
    """What may befall a master behind Sentinels."""

    successions: float = 0.0
    """Callers are cut off and find its successor; keepers have nothing to complain of."""


class Masters(RedisNode):
    """A master and those that succeed it: whoever opens a connection reaches the latest."""

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        yield from super().strikes(faults)
        if isinstance(faults, SuccessionFaults):
            self._remember()
            yield faults.successions, self._succeed

    def _succeed(self) -> None:
        self.world.faults["successions"] += 1
        old = Deposed(self)
        for port in list(self.ports):
            if port.stays:
                port.server = old
                old.ports[port] = self.ports.pop(port)
            elif port.wire is not None:
                port.wire.cut()
        self.generation += 1
        self._forget("", self._older[-1])
        self.world.after(self.world.random.uniform(*DEMOTED_AFTER), old.demote)


class Deposed(RedisNode):
    """What was the master; the history knows nothing of what it does."""

    def __init__(self, master: Masters) -> None:
        super().__init__(master.world, master.network)
        self.clock, self.wall_ahead = master.clock, master.wall_ahead
        self.keys.take_from(master.keys)
        self._scripts = dict(master._scripts)

    def demote(self) -> None:
        self._hang_up()

    def tell(self, order: Order, note: str = "") -> None:
        """Nobody believes it any more."""

    def _record(self, kind: Kind, name: str, claim_id: str, **more: Any) -> None:
        """The same."""


class KeepersDial(Dial):
    """Opens connections that are not cut when another server becomes the master."""

    async def open(self, settings: Settings, *, curious: bool = False) -> Connection:
        connection = await super().open(settings, curious=curious)
        connection.end.port.stays = True
        return connection


class Keeping(SimBlocking):
    """The keeper's side of a process."""

    def __init__(self, process: Process, node: RedisNode) -> None:
        super().__init__(process, node)
        self._connections.dial = KeepersDial(process, node)


def not_noticed(_: object) -> Callable[[Latest, Any], None]:
    """Each backend knows only where it is connected itself."""
    return lambda _latest, _peer: None


SUCCEEDED = replace(REDIS, node=Masters, keeper=Keeping)

SUCCESSION: dict[str, Bug] = {
    "redis-keeper-stays-with-the-old-master": believed(
        Patch(Latest, "reached", not_noticed),
        rules="d",
        faults=SuccessionFaults(successions=0.3),
        only=("mutex",),
        sound=SUCCEEDED,
    ),
}
