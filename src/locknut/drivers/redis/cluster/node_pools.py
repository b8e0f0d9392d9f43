"""The blocking connections to a cluster: a pool for each node, and one face for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

from locknut.drivers.redis import wire
from locknut.drivers.redis.cluster.hash_slots import Address
from locknut.drivers.redis.cluster.routing import Answers, Cluster, Node, Routes
from locknut.drivers.redis.cluster.silence import Silence
from locknut.drivers.redis.connections import BlockingDial, Connection
from locknut.drivers.redis.endpoints import MACHINE, TimeAndChance
from locknut.drivers.redis.fan_out import ask_all
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.deadlines import time_left
from locknut.runtimes.threads import Guard, run

_SILENT: Final = 0.2
"""Seconds without an answer after which a node may be frozen, though its caller gave up."""


class NodePool(Pool):
    """The connections to one node: while it is silent, nobody waits for it a second time."""

    def __init__(self, node: Node, clock: TimeAndChance):
        super().__init__(node, clock)
        self._silence = Silence(node.settings)

    def take(self) -> Connection:
        self._silence.ensure_over()
        begun = monotonic()
        try:
            return super().take()
        except BackendUnavailable as error:
            self._note(error.__cause__, begun)
            raise

    def drop(self, connection: Connection, error: BaseException) -> None:
        self._note(error, connection.used)
        super().drop(connection, error)

    def _note(self, error: BaseException | None, begun: float) -> None:
        """A caller that could not wait for long has learned nothing about the node."""
        if wire.timed_out(error) and monotonic() - begun >= min(_SILENT, self.settings.limit):
            self._silence.begin()

    def close(self) -> None:
        self._silence.end()
        super().close()


class NodePools(Routes):
    """The idle connections of one backend, to all nodes: used as a `Pool` is."""

    def __init__(self, cluster: Cluster, clock: TimeAndChance = MACHINE):
        super().__init__(cluster, clock)
        self._dial = BlockingDial(clock)
        self._pools: dict[Address, NodePool] = {}
        self._mutex = Guard()

    @property
    def settings(self) -> Settings:
        return self.cluster.settings

    def longest_slice(self, wanted: float) -> float:
        return min(wanted, self.settings.limit / 2)

    def send(self, packed: bytes) -> Any:
        (reply,) = run(self.route([packed]))
        if isinstance(reply, BackendError):
            raise reply
        return reply

    def send_many(self, packed: Sequence[bytes]) -> list[object]:
        return run(self.route(packed))

    @contextmanager
    def lent(self, packed: bytes) -> Iterator[Connection]:
        address = run(self.owner_of(packed))
        try:
            with self._at(address).lent() as connection:
                yield connection
        except BackendError:
            self.suspect(address)
            raise

    def era_of(self, packed: bytes) -> object:
        return self._at(run(self.owner_of(packed))).era

    def masters(self) -> list[Pool]:
        run(self.look())
        return [self._at(address) for address in self.cluster.map.masters()]

    def listen(self, moved: Callable[[], None]) -> None:
        """A node's address never changes; MOVED says which node has its slots by now."""

    def hung_up(self) -> bool:
        cut = [pool.hung_up() for pool in list(self._pools.values())]
        return any(cut)

    def close(self) -> None:
        self._mutex = Guard()  # in a forked child nobody is there to give it back
        for pool in list(self._pools.values()):
            pool.close()

    async def _refresh(self) -> None:
        try:
            self._mutex.acquire(timeout=time_left(self.settings.limit))
            if not self._mutex.inside():
                raise TimeoutError  # another thread is at it, and has more time
            if self.cluster.map.stale:  # callers that waited for this find the map made anew
                await self.cluster.refresh(self._dial)
                for address in self._pools.keys() - set(self.cluster.map.masters()):
                    self._pools.pop(address).close()
        except TimeoutError as error:
            raise wire.unreachable(self.settings, error) from error
        finally:
            if self._mutex.inside():
                self._mutex.release()

    async def _together(self, sent: Mapping[Address, Sequence[bytes]]) -> Answers:
        work = [(self._at(address), packed) for address, packed in sent.items()]
        return dict(zip(sent, ask_all(work), strict=True))

    def _at(self, address: Address) -> NodePool:
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools.setdefault(
                address, NodePool(self.cluster.node(address), self._dial.clock)
            )
        return pool
