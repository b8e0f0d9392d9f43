"""One node of a set at a time dies, stands still or forgets, again and again."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

import locknut
from locknut import redlock
from locknut.backends.redlock.recipe import GUARD, MARKER
from locknut.errors import LocknutError
from tests.servers.processes import PATIENCE
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.resp import Answer


def quarantine(max_ttl: float) -> float:
    """Seconds after its first question when a node that lost its data votes (`ready.lua`), and some
    until it was asked.
    """
    return (max_ttl + GUARD) * 1.02 + 2.0


def votes(nodes: Sequence[RedisServer]) -> Counter[bytes]:
    """By how many of them each hold is known, of all locks."""
    found: Counter[bytes] = Counter()
    now = int(time.time() * 1000)  # what has run out is there until somebody asks for the lock
    for node in nodes:
        with node.connect() as wire:
            for key in _list(wire.ask("KEYS", "*:redlock")):
                if key != MARKER:
                    found.update(_list(wire.ask("ZRANGEBYSCORE", key, now, "+inf")))
    return found


def _list(answer: Answer) -> list[bytes]:
    assert isinstance(answer, list)
    return [each for each in answer if isinstance(each, bytes)]


class Mishaps:
    """Use it in a `with`: at its end everybody is well, and every deed was done once at least.

    The next victim is chosen when the last one votes again and holds were mended there: then never
    more than one is missing. And none forgets a vote that its majority cannot do without: a fresh
    hold has three of five votes until its client has connections to the others, or is renewed. So
    nothing has an excuse to fail.
    """

    def __init__(self, nodes: RedlockNodes, url: str, max_ttl: float):
        self._nodes = nodes.nodes
        self._url = url
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
        redlock.begin(self._url)
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
                if deed != self._stand_still:  # what was granted while one stood still is mended
                    self._enough.wait(self._mending)
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
        self._still_until_dispensable(node)
        node.kill()
        try:
            self._enough.wait(self._chance.uniform(0.2, 3.0))
        finally:
            node.start()
        return self._until_it_votes(node)

    def _forget(self, node: RedisServer) -> float:
        self._still_until_dispensable(node)
        node.restart(keep_data=False)
        return self._until_it_votes(node)

    def _still_until_dispensable(self, node: RedisServer) -> None:
        """It gives no vote any more, and every hold is known by a majority of the others, or by so
        few that it is none with this one: what is on its way comes to an end meanwhile.
        """
        others = [each for each in self._nodes if each is not node]
        enough = len(self._nodes) // 2 + 1
        node.stop()
        give_up = time.monotonic() + PATIENCE
        while enough - 1 in votes(others).values():
            assert time.monotonic() < give_up, "a hold is not mended, nor is it over"
            time.sleep(0.01)

    def _until_it_votes(self, node: RedisServer) -> float:
        """Somebody has to ask it, or it keeps still for ever."""
        run = node.info()["run_id"].encode()
        with locknut.connect(self._url, namespace="mishaps") as locks:
            while not self._enough.wait(0.1):
                with suppress(LocknutError), locks.lock(f"mishap {self.seed}", timeout=1):
                    pass
                terms = node.ask("HGET", "locknut:redlock", "votes")
                if isinstance(terms, bytes) and terms.startswith(run):
                    break
        return self._mending
