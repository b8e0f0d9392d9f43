"""The server's side: one instance of memcached after the other, at one address.

An instance knows when it was started, in whole seconds of the machine's clock; everything else it
forgets. A connection ends with its instance, and so does what was sent on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from locknut.backends.memcached import recipe
from locknut.backends.memcached.handles import Handles
from locknut.core.values import Claim, LockInfo
from locknut.drivers.memcached.replies import Replies, Reply
from locknut.drivers.memcached.server_clocks import ServerClocks
from tests.simulation.checker.history import Kind
from tests.simulation.memcached.cache import Cache
from tests.simulation.memcached.faults import CacheFaults
from tests.simulation.memory.node import EPOCH, NOBODY, Node, Order, SimStore, bare
from tests.simulation.network import Faults, Network

if TYPE_CHECKING:
    from tests.simulation.memcached.connection import Question
    from tests.simulation.process import Process
    from tests.simulation.world import World


class Started(NamedTuple):
    """What an instance knows of its start."""

    start: int
    """Seconds since the epoch, whole ones: what was between two of them is not known."""
    pid: int
    at: float
    """By the machine's own clock, which never steps."""


class Memcached(Node):
    """One address, and whoever serves it now."""

    def __init__(self, world: World, network: Network, cache: Callable[[], Cache] = Cache) -> None:
        self._make = cache
        self.cache = cache()
        self.generation = 0
        self.stopped = False
        self.asked: dict[Question, None] = {}
        """Questions without an answer."""
        self._later: list[Callable[[], None]] = []
        self._shown: int | None = None
        """What its clock shows while nobody turns it."""
        self._handles: dict[str, Handles] = {}
        self._clocks: dict[str, ServerClocks] = {}
        self._greatest = 0
        """The greatest number that was ever given."""
        self.instance = Started(0, 0, 0.0)
        super().__init__(world, network)
        # It has run for a while: nobody has to wait until it is old enough.
        self.instance = Started(int(self.wall()) - 100, 1, self.now() - 100.0)

    def wall(self) -> float:
        """The machine's: it drifts, and may be set."""
        return EPOCH + self.now() + self.wall_ahead

    def second(self) -> int:
        """Whole seconds of this instance, as its clock shows them."""
        return int(self.now() - self.instance.at) if self._shown is None else self._shown

    def handles_of(self, process: Process) -> Handles:
        """All backends of an engine share them."""
        return self._handles.setdefault(process.name, Handles())

    def clocks_of(self, process: Process) -> ServerClocks:
        """The same for these."""
        return self._clocks.setdefault(process.name, ServerClocks())

    # Commands.

    def arrive(self, question: Question) -> None:
        if question.generation != self.generation:
            return
        if not self.up:
            question.cut()
        elif self.stopped or (question.connects and self._shown is not None):
            self._later.append(lambda: self.arrive(question))
        elif not question.packed:
            question.answered((*self.instance[:2], self.second()))
        else:
            question.answered(self._do(question))

    def _do(self, question: Question) -> list[Reply]:
        """All the commands of one write, one after the other and nothing between."""
        held = {key: self._name(key) for key in self.cache.items}
        start = self.instance.start
        answers = [self.cache.run(each, self.second(), start) for each in question.packed]
        if question.breaks:
            for packed, answer in zip(question.packed, answers, strict=True):
                name = held.get(packed.split(b" ", 2)[1], "")
                if packed.startswith(b"ms ") and answer.startswith(b"HD") and name:
                    self.broken(name, LockInfo(""))
        self.tell(Order(question.actors, NOBODY.command, question.renews))
        replies = Replies()
        replies.feed(b"".join(answers))
        found = [replies.next() for _ in answers]
        return [reply for reply in found if reply is not None]

    def _name(self, key: bytes) -> str:
        item = recipe.read(Reply(b"VA", [b"c1"], self.cache.items[key].value))
        return item.name if item is not None else ""

    def tell(self, order: Order, note: str = "") -> None:
        super().tell(order, note)
        raws = [held.raw for held in self.store.holds()]
        self._greatest = max([self._greatest, *raws])

    # Faults.

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        if isinstance(faults, CacheFaults):
            yield faults.flushed, self._flush
            yield faults.evicted, self._evict
            yield faults.connections_cut, self._cut_some
            yield faults.server_stops, self._stop
            yield faults.clock_stalls, self._stall

    def restart(self, *, keep_data: bool, away: float) -> None:
        """All is lost, whatever the caller says: it is a cache."""
        del keep_data
        self._hang_up()
        self.cache = self._make()
        super().restart(keep_data=False, away=away)

    def _come_back(self) -> None:
        if not self.up:
            pid = self.instance.pid + 1
            self.instance = Started(int(self.wall()), pid, self.now())
            if recipe.raw_of(self.instance.start, 1) <= self._greatest and self._is_behind():
                self._record(Kind.BEHIND, "", "")
        super()._come_back()

    def _is_behind(self) -> bool:
        """Whether that is the clock's doing, and not that of a start in the same second."""
        return self.wall_ahead < 0

    def _flush(self) -> None:
        self.world.faults["flushed"] += 1
        self._record(Kind.FORGOT, "", "")
        self.cache.items.clear()
        self.tell(NOBODY, note="forgotten")

    def _evict(self) -> None:
        keys = sorted(self.cache.items)
        if keys:
            self.world.faults["evicted"] += 1
            key = self.world.random.choice(keys)
            if name := self._name(key):
                self._record(Kind.FORGOT, bare(name), "")
            del self.cache.items[key]
            self.tell(NOBODY, note="forgotten")

    def _hang_up(self) -> None:
        self.generation += 1
        self._later.clear()
        for question in list(self.asked):
            question.cut()

    def _cut_some(self) -> None:
        self.world.faults["connections_cut"] += 1
        for question in list(self.asked):
            if self.world.chance(0.5):
                question.cut()

    def _stop(self) -> None:
        if not self.stopped and self.up:
            self.world.faults["server_stops"] += 1
            self.stopped = True
            self.world.after(self.world.random.choice((0.05, 0.4, 1.5)), self._go_on)

    def _stall(self) -> None:
        """Nobody turns the clock for a while, nor accepts connections; all else goes on."""
        if self._shown is None and self.up:
            self.world.faults["clock_stalls"] += 1
            self._shown = self.second()
            self.world.after(self.world.random.choice((0.5, 1.5, 4.0)), self._turn)

    def _turn(self) -> None:
        self._shown = None
        if not self.stopped:
            self._go_on()

    def _go_on(self) -> None:
        self.stopped = False
        later, self._later = self._later, []
        for call in later:
            call()

    # What the history sees.

    def _new_store(self) -> SimStore:
        return ItemView(self)

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        for held in self.store.holds():
            yield bare(held.claim.key), held.claim.id, "a hold"


class Shown:
    """A holder, as the simulator sees one."""

    def __init__(self, claim: Claim, raw: int, expires: float) -> None:
        self.claim, self.raw, self.expires = claim, raw, expires


class ItemView(SimStore):
    """The items of a cache, as the simulator sees a store."""

    def __init__(self, server: Memcached) -> None:
        super().__init__(server.wall, _nothing, _nothing)
        self._server = server

    def holds(self) -> Iterator[Any]:
        instance, second = self._server.instance, self._server.second()
        for stored in self._server.cache.items.values():
            item = recipe.read(Reply(b"VA", [b"c%d" % stored.cas], stored.value))
            if item is not None and item.claim_id and item.name and stored.ends > second:
                raw = item.raw or recipe.raw_of(instance.start, item.cas)
                yield Shown(Claim(item.name, item.claim_id), raw, instance.at + stored.ends)


def _nothing(*_: object) -> None:
    """Nothing to do."""
