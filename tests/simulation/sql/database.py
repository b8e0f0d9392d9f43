"""The server's side: statements on one table, on a machine that stops, restarts and is replaced.

A statement has one clock, read when it begins. Then it may wait for its rows, and is done in one
step when it has them. What was done is never lost by a restart; a failover may lose it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from locknut.backends.sql.table_port import RAW_STEP, US
from locknut.backends.sql.waiting_claims import NOTED
from locknut.core.values import LockInfo
from tests.simulation.checker.history import Kind
from tests.simulation.memory.node import EPOCH, NOBODY, Node, Order, SimStore, bare
from tests.simulation.network import Faults, Network
from tests.simulation.sql.faults import SqlFaults
from tests.simulation.sql.row_view import RowView
from tests.simulation.sql.table_store import TableStore

if TYPE_CHECKING:
    from tests.simulation.sql.bells import SimBells
    from tests.simulation.sql.statements import Question
    from tests.simulation.world import World

LOCK_WAIT = 0.3
"""Seconds after which the database gives a statement up that waits for a row."""
LOCKED_FOR = (0.02, 0.2, 0.35, 1.0)
COPIES = (0.02, 0.2, 1.0)
"""Seconds between two states that a replica may have."""
BEHIND = 2.0
"""So much at the most a promoted clock is behind, and a clock is set back."""
UNUSED = 6 * US
"""After so long a row is deleted: longer than a statement waits for a row, or a process stops
between reading and writing one. In production it is a day."""


class PrunedSoon(TableStore):
    """The reference, with less patience for rows that nobody uses."""

    unused = UNUSED


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement on its way: what it does, for whom, and what the history has to know."""

    run: Callable[[TableStore, int], Any]
    actors: tuple[str, ...] = ()
    rows: tuple[bytes, ...] = ()
    """Those that it writes."""
    renews: bool = False
    """All it may do is renew."""
    read_at: int | None = None
    """When its rows were read, if it is a swap: by that clock it was decided."""
    withdraws: bool = False
    """Where it finds its claim, that is taken back for good."""
    breaks: bool = False


class Done(Order):
    """A statement that was done, to tell of."""

    lasting: set[str]
    """The holds that had not run out by the clock that it was decided by."""
    lapsed: set[str]
    """Those that had."""

    def may_only_renew(self, claim_id: str) -> bool:
        """Nobody can grant to another claim, and a renewal to none that has run out."""
        if claim_id not in self.actors:
            return True
        return self.renews and claim_id not in self.lasting

    def culprit(self, claim_id: str) -> str:
        return "" if claim_id in self.lapsed else super().culprit(claim_id)


class Database(Node):
    """One server with one table; after a failover, the one that took its place."""

    def __init__(
        self, world: World, network: Network, table: Callable[[], TableStore] = PrunedSoon
    ) -> None:
        self.table = table()
        self.stopped = False
        self.generation = 0
        """Connections of an earlier one are dead, and so is what was sent on them."""
        self.bells: list[SimBells] = []
        """Of clients that listen."""
        self.backends: list[Any] = []
        """Of all clients, to look into at the end."""
        self.read_at: dict[str, int] = {}
        """When a claim saw its row last, where the table itself was not asked."""
        self.asked: dict[Question, None] = {}
        """Questions without an answer."""
        self._locked: dict[str, float] = {}
        self._later: list[Callable[[], None]] = []
        self._taken_back: set[str] = set()
        """Claims that were, since the last failover: none of them waits any more."""
        self._greatest = 0
        """The greatest number ever given."""
        self._replica: deque[Any] = deque(maxlen=4)
        super().__init__(world, network)

    def wall(self) -> float:
        """One clock for everything, as on a real server: it drifts, and may be set."""
        return EPOCH + self.now() + self.wall_ahead

    def microseconds(self) -> int:
        return int(self.wall() * US)

    # Statements.

    def arrive(self, question: Question) -> None:
        if question.generation != self.generation:
            return
        if not self.up:
            question.refused()
        elif self.stopped:
            self._later.append(lambda: self.arrive(question))
        else:
            self._begin(question, self.microseconds())

    def _begin(self, question: Question, began: int) -> None:
        names = {bare(key[1:].decode()) for key in question.statement.rows}
        free_at = max((self._locked.get(name, 0.0) for name in names), default=0.0)
        wait = free_at - self.world.now
        if names and self.network.befalls("deadlocks"):
            question.undone()
        elif wait > LOCK_WAIT:
            self.world.after(LOCK_WAIT, question.undone)
        else:
            takes = self.world.random.uniform(0.0, 0.002) if names else 0.0
            self.world.after(max(wait, takes), lambda: self._do(question, began))

    def _do(self, question: Question, began: int) -> None:
        if question.generation != self.generation:
            return
        statement = question.statement
        known = {
            held.claim.id: held.expires
            for state in self.view.states()
            for held in state.holders.values()
        }
        answer = statement.run(self.table, began)
        decided = began if statement.read_at is None else statement.read_at
        done = Done(statement.actors, NOBODY.command, statement.renews)
        done.lasting = {who for who, expires in known.items() if expires > decided}
        done.lapsed = set(known) - done.lasting
        if statement.breaks and answer:
            self.broken(statement.rows[0][1:].decode(), LockInfo(""))
        self.tell(done)
        if statement.withdraws:
            self._withdrawn_by(statement, answer)
        for name, claim_id in self.view.places_in_line():
            if claim_id in self._taken_back:
                self._record(Kind.LEFT, name, claim_id, note="a place in line, after the release")
        question.answered(answer)

    def _withdrawn_by(self, statement: Statement, answer: Any) -> None:
        seen = answer if isinstance(answer, list) else [answer]
        for key, claim_id, each in zip(statement.rows, statement.actors, seen, strict=True):
            if each.row is not None:
                self.withdrawn(bare(key[1:].decode()), claim_id)

    def withdrawn(self, name: str, claim_id: str) -> None:
        self._taken_back.add(claim_id)
        super().withdrawn(name, claim_id)

    def tell(self, order: Order, note: str = "") -> None:
        super().tell(order, note)
        self._greatest = max([self._greatest, *(row.fence for row in self.table.rows.values())])

    def ring(self, claim_ids: tuple[str, ...]) -> None:
        """A notification goes to everybody who listens."""
        for bells in self.bells:
            self.network.ring(lambda bells=bells: bells.heard(claim_ids))  # type: ignore[misc]

    # Faults.

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        if isinstance(faults, SqlFaults):
            yield faults.connections_cut, self._cut_some
            yield faults.server_stops, self._stop
            yield faults.rows_locked, self._lock_rows
            yield faults.clock_set_forward, self._set_forward
            yield faults.lagging_replica, self._fail_over
            yield faults.pruned, self._prune
            if faults.lagging_replica:
                self._follow()

    def restart(self, *, keep_data: bool, away: float) -> None:
        """Nothing is lost that was done, whatever the caller says: that is what it promises."""
        del keep_data
        self._hang_up()
        super().restart(keep_data=True, away=away)

    def set_back(self, seconds: float) -> None:
        super().set_back(min(seconds, BEHIND))
        self.tell(NOBODY)

    def _set_forward(self) -> None:
        """What runs out by that is gone too early: nobody is excluded by it any more."""
        self.world.faults["clock_set_forward"] += 1
        self._record(Kind.STEPPED, "", "")
        self.wall_ahead += self.world.random.uniform(0, 20)
        self.tell(NOBODY, note="stepped")

    def _follow(self) -> None:
        """What a replica has that follows from time to time."""
        self._replica.append((dict(self.table.rows), dict(self.table.clients)))
        self.world.after(self.world.random.choice(COPIES), self._follow)

    def _fail_over(self) -> None:
        self.world.faults["lagging_replica"] += 1
        self._hang_up()
        self._taken_back.clear()
        self._record(Kind.FORGOT, "", "")
        rows, clients = self.world.random.choice(self._replica)
        self.table.rows, self.table.clients = dict(rows), dict(clients)
        if self.network.befalls("clock_behind"):
            self.wall_ahead -= self.world.random.uniform(0.0, BEHIND)
        if self.microseconds() // RAW_STEP <= self._greatest:
            self._record(Kind.BEHIND, "", "")
        self.tell(NOBODY, note="forgotten")

    def _hang_up(self) -> None:
        self.generation += 1
        self._later.clear()
        self._locked.clear()
        for question in list(self.asked):
            question.cut()
        self._silence(self.bells)

    def _cut_some(self) -> None:
        self.world.faults["connections_cut"] += 1
        for question in list(self.asked):
            if self.world.chance(0.5):
                question.cut()
        self._silence([bells for bells in self.bells if self.world.chance(0.5)])

    def _silence(self, chosen: list[SimBells]) -> None:
        self.bells = [bells for bells in self.bells if bells not in chosen]
        for bells in chosen:
            bells.cut()

    def _stop(self) -> None:
        if not self.stopped and self.up:
            self.world.faults["server_stops"] += 1
            self.stopped = True
            self.world.after(self.world.random.choice((0.05, 0.4, 1.5)), self._go_on)

    def _go_on(self) -> None:
        self.stopped = False
        later, self._later = self._later, []
        for call in later:
            call()

    def _lock_rows(self) -> None:
        names = sorted({bare(key[1:].decode()) for key in self.table.rows})
        if names:
            self.world.faults["rows_locked"] += 1
            name = self.world.random.choice(names)
            self._locked[name] = self.world.now + self.world.random.choice(LOCKED_FOR)

    def _prune(self) -> None:
        self.world.faults["pruned"] += self.table.prune(200, self.microseconds())
        self.tell(NOBODY)

    # What the history sees.

    def _new_store(self) -> SimStore:
        self.view = RowView(self)
        return self.view

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        now = self.microseconds()
        for held in self.view.holds():
            yield bare(held.claim.key), held.claim.id, "a hold"
        for state in self.view.states():
            for claim_id, waiting in state.line.items():
                client = waiting.place.client  # who is next drops the places of dead ones
                if self.table.living([client], NOTED, now):
                    yield bare(state.key), claim_id, "a place in line"
        for backend in self.backends:
            yield from backend.remembers()
