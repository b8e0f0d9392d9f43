"""The client's side: `LockSession` and `LockSessions` of the port, on simulated connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from locknut.backends.sql.session.claim_sessions import ClaimSessions
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.errors import BackendUnavailable, ConfigurationError
from tests.simulation.checker.history import Kind
from tests.simulation.coroutines import Died
from tests.simulation.process import SimGuard
from tests.simulation.sql.session.server import WAIT
from tests.simulation.sql.session.server_session import Interrupted
from tests.simulation.sql.session.wire import Wire
from tests.simulation.sql.statements import REPLY_WITHIN, TRIES, SimTable, Undone

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.sql.session.server import SessionDatabase
    from tests.simulation.sql.session.server_session import ServerSession

PLACE = "locks"


class SimLockSession:
    """One session, as its client knows it."""

    longest_wait = WAIT

    def __init__(self, home: SimLockSessions, wire: Wire) -> None:
        self.number = wire.session.number
        """For good, whatever is at the other end by now."""
        self.wire = wire
        self._home = home
        self._process = home.process
        self._database = home.database

    def fileno(self) -> int:
        return self.wire.descriptor

    def alive(self) -> bool:
        return not self.wire.received and not self.wire.hung_up

    async def enter(self, gate: bytes, own: bytes | None, wanted: Take) -> tuple[bool, Seen | None]:
        got, number, seen = await self._ask(
            lambda session: self._database.enter(session, gate, own, wanted)
        )
        if number != self.number:
            raise ConfigurationError("somebody shares our sessions", backend="sql")
        self._database.read_at[wanted.claim_id] = seen.now
        return got, seen

    async def take(self, wanted: Take) -> Seen | None:
        seen: Seen = await self._ask(lambda session: self._database.take(session, wanted))
        self._database.read_at[wanted.claim_id] = seen.now
        return seen

    async def give_back(self, hold: GiveBack) -> Seen:
        found = await self._ask(lambda session: self._database.give_back(session, hold))
        return cast("Seen", found)

    async def keep(self, lock: bytes) -> bool:
        kept = await self._ask(self._at_once(lambda session: self._database.seize(session, lock)))
        return cast("bool", kept)

    async def free(self, lock: bytes | None) -> None:
        await self._ask(self._at_once(lambda session: self._database.free(session, lock)))

    def _at_once(self, do: Callable[[ServerSession], object]) -> Callable[[ServerSession], None]:
        def arrive(session: ServerSession) -> None:
            self._database.done(session, do(session))

        return arrive

    async def _ask(self, arrive: Callable[[ServerSession], None]) -> Any:
        """What was undone is sent again; after any other failure nobody uses this session."""
        for _ in range(TRIES):
            if self._process.dead:
                raise Died
            self.wire.send(arrive)
            if not await self.wire.something(self._process.now() + REPLY_WITHIN):
                self._database.cut_off(self.wire.session)
                raise BackendUnavailable("no answer", backend="sql")
            answer = self._heard()
            if not isinstance(answer, Undone):
                return answer
        raise BackendUnavailable("undone again and again", backend="sql")

    def _heard(self) -> Any:
        if not self.wire.received:
            raise BackendUnavailable("the server has hung up", backend="sql")
        answer = self.wire.received.popleft()
        if isinstance(answer, Interrupted):
            self._database.cut_off(self.wire.session)
            raise BackendUnavailable("interrupted", backend="sql")
        return answer

    async def wait(self, lock: bytes) -> None:
        if self.wire.hung_up:
            raise BackendUnavailable("the server has hung up", backend="sql")
        self.wire.send(lambda session: self._database.wait(session, lock))

    async def waited(self) -> bool | None:
        return cast("bool", self._heard()) if not self.alive() else None

    async def stopped(self, seconds: float) -> bool:
        if not await self.wire.something(self._process.now() + seconds):
            return False
        self._heard()
        return True

    def back(self) -> None:
        """All that it said was answered, so the server has done it."""
        session = self.wire.session
        if session.locks or session.busy:
            for name in session.names:
                self._process.tell(Kind.LEFT, name, note="a session was given back with a lock")
        self._home.idle.append(self)

    def drop(self) -> None:
        self.wire.close()

    def cut(self) -> None:
        """Whoever uses it hears of it at once."""
        self.wire.hung_up = True
        self.wire.close()


class SimLockSessions:
    """The way of one client to them."""

    place = PLACE
    inside = bool
    """Nothing runs in the middle of a simulated statement."""
    session_type: type[SimLockSession] = SimLockSession

    def __init__(self, process: Process, database: SessionDatabase) -> None:
        self.process = process
        self.database = database
        self.idle: list[SimLockSession] = []
        """Free for another claim."""
        self._commands = SimTable(process, database)

    async def open(self) -> SimLockSession:
        while self.idle:
            kept = self.idle.pop()
            if kept.alive():
                return kept
            kept.drop()
        session = await self._commands.send(lambda _, __: self.database.open())
        return self.session_type(self, Wire(self.process, self.database, session))

    async def owners(self, locks: Sequence[bytes]) -> dict[bytes, int]:
        found = await self._commands.send(lambda _, __: self.database.numbers(list(locks)))
        return cast("dict[bytes, int]", found)

    async def interrupt(self, number: int, lock: bytes) -> None:
        await self._commands.send(lambda _, __: self.database.interrupt(number, lock))

    async def end(self, number: int, lock: bytes) -> None:
        await self._commands.send(lambda _, __: self.database.end_number(number, lock))

    def close(self) -> None:
        """The simulator ends with the process."""

    def forked(self) -> None:
        """Simulated processes do not fork."""


class SimArrivals:
    """Rings when something arrives at one of the sessions; in production a thread does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def expect(self, descriptor: int, ring: Callable[[], None]) -> None:
        wire: Wire = self._process.files[descriptor]
        if wire.received or wire.hung_up:
            self._process.soon(ring)
        else:
            wire.ring = ring

    def forget(self, descriptor: int) -> None:
        wire: Wire = self._process.files[descriptor]
        wire.ring = None

    def close(self) -> None:
        """The simulator ends with the process."""


class SimClaimSessions(ClaimSessions):
    """Those of one process: of its callers and of its keeper."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        simulated: Any = SimArrivals(process), SimGuard(process.world)
        self._arrivals, self.guard = simulated
