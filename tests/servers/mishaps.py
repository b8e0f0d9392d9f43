"""One node of a set at a time dies, stands still or forgets, again and again."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

from locknut.backends.redlock.recipe import GUARD
from tests.servers.processes import PATIENCE
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes


def quarantine(max_ttl: float) -> float:
    """Seconds after its start when a node that lost its data votes at the latest (`ready.lua`): it
    counts its uptime in whole seconds, which may be one too few as well as one too many.
    """
    return (max_ttl + GUARD) * 1.02 + 2.0


class Mishaps:
    """Use it in a `with`: at its end everybody is well, and every deed was done once at least.

    The next victim is chosen when the last one votes again and holds were mended there: then never
    more than one is missing, and nothing has an excuse to fail.
    """

    def __init__(self, nodes: RedlockNodes, max_ttl: float):
        self._nodes = nodes.nodes
        self._silence = quarantine(max_ttl)
        self._mending = max_ttl * 0.5
        """A third of the ttl until the renewal that mends, and a little."""
        self.seed = int(os.environ.get("LOCKNUT_SEED") or int.from_bytes(os.urandom(4)))
        self._chance = random.Random(self.seed)
        self._enough = threading.Event()
        self.done: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._go_on, name="mishaps", daemon=True)
        self._trouble: list[BaseException] = []

    def __enter__(self) -> Self:
        print("LOCKNUT_SEED =", self.seed)
        self._enough.wait(self._silence)  # a new set keeps still
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE * 2)
        assert not self._thread.is_alive(), "a node does not come back"
        assert not self._trouble, self._trouble

    def _go_on(self) -> None:
        deeds: list[Callable[[RedisServer], float]] = [self._stand_still, self._die, self._forget]
        try:
            while not self._enough.is_set():
                if not deeds:
                    deeds = [self._stand_still, self._stand_still, self._die, self._forget]
                deed = deeds.pop(self._chance.randrange(len(deeds)))
                rest = deed(self._chance.choice(self._nodes))
                self.done[deed.__name__] += 1
                self._enough.wait(rest)
        except BaseException as error:  # noqa: BLE001  # told at the end, by the test's thread
            self._trouble.append(error)

    def _stand_still(self, node: RedisServer) -> float:
        node.stop()
        try:
            self._enough.wait(self._chance.uniform(0.2, 3.0))  # the fault itself
        finally:
            node.cont()
        return self._chance.uniform(0.1, 0.5)

    def _die(self, node: RedisServer) -> float:
        node.kill()
        try:
            self._enough.wait(self._chance.uniform(0.2, 3.0))
        finally:
            node.start()
        return self._silence + self._mending

    def _forget(self, node: RedisServer) -> float:
        node.restart(keep_data=False)
        return self._silence + self._mending
