"""The server's sessions, and the locks that belong to them: taken, waited for, freed with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from locknut.backends.sql.table_port import GiveBack, Seen, Take
from tests.simulation.checker.history import Kind
from tests.simulation.memory.node import bare
from tests.simulation.network import Faults
from tests.simulation.sql.database import Database, Statement
from tests.simulation.sql.session.faults import SessionFaults
from tests.simulation.sql.session.server_session import ServerSession, SessionStatement, nothing

WAIT = 4.0
"""Seconds for which the server waits for a lock at a time. In production it is a minute."""
SIGNAL = 0.001
"""Seconds until a session notices that it is interrupted."""
AFTER = 1e-6
"""Who has waited for a row comes after what it has waited for."""
STANDS_STILL = (1.0, 5.0, 60.0)
"""Seconds for which a keeper does nothing; it goes on when the faults are over."""


class SessionDatabase(Database):
    """A server with sessions and with exclusive locks that have names."""

    def __init__(self, *known: Any, **more: Any) -> None:
        super().__init__(*known, **more)
        self.sessions: dict[int, ServerSession] = {}
        self.claims: dict[str, Any] = {}
        """Of each process, by its name: its `ClaimSessions`."""
        self.hearts: dict[str, float] = {}
        """Until when the keeper of a process stands still."""
        self.modes: dict[str, str] = {}
        """What each process uses, where some use sessions and some do not."""
        self._owners: dict[bytes, ServerSession] = {}
        self._queues: dict[bytes, deque[ServerSession]] = {}
        self._numbers = 0
        self._as_mysql = self.world.chance(0.5)
        """Whether a release frees its locks before it is committed."""
        self._starting = False
        """Whether it is being exchanged: nobody can connect."""

    @property
    def disturbed(self) -> bool:
        """Whether faults are at work."""
        return isinstance(self.network.faults, SessionFaults)

    # Sessions.

    def open(self) -> ServerSession:
        self._numbers += 1
        session = self.sessions[self._numbers] = ServerSession(self._numbers)
        return session

    def received(self, session: ServerSession, arrive: Callable[[ServerSession], None]) -> None:
        """One thing at a time: while a session waits, it does not even see that it was closed."""
        if self.stopped:
            self._later.append(lambda: self.received(session, arrive))
        elif session.alive and session.busy:
            session.backlog.append(arrive)
        elif session.alive:
            arrive(session)

    def done(self, session: ServerSession, answer: Any) -> None:
        if session.wire is not None:
            session.wire.answer(answer)
        while session.alive and not session.busy and session.backlog:
            session.backlog.popleft()(session)

    def closed(self, session: ServerSession) -> None:
        """By its client."""
        self._gone(session)

    def end(self, session: ServerSession, *, silently: bool = False) -> None:
        """By the server: its client is told, if it can be, or gets another one in its place."""
        if not session.alive:
            return
        self.cut_off(session)
        wire, idle = session.wire, not session.busy
        self._gone(session)
        if wire is None or silently:
            return
        if idle and not self._starting and self.network.befalls("silent_reconnects"):
            wire.session = self.open()
            wire.session.wire = wire
            wire.session.names = session.names
        else:
            wire.hang_up()

    def cut_off(self, session: ServerSession) -> None:
        """From now on whoever holds by this session may be told of a loss."""
        for name in session.names:
            self._record(Kind.CUT, name, "")

    def _gone(self, session: ServerSession) -> None:
        session.alive = False
        session.backlog.clear()
        self.sessions.pop(session.number, None)
        session.call_off()
        if session.waits_for is not None:
            self._queues[session.waits_for].remove(session)
        self.free(session, None)

    def end_number(self, number: int, lock: bytes) -> None:
        session = self.sessions.get(number)
        if session is not None and (lock in session.locks or session.waits_for == lock):
            self.world.after(self.world.random.uniform(0.0, 0.005), partial(self.end, session))

    def interrupt(self, number: int, lock: bytes) -> None:
        session = self.sessions.get(number)
        if session is not None and session.waits_for == lock:
            self.world.after(SIGNAL * self.disturbed, lambda: self._interrupt(session))

    def _interrupt(self, session: ServerSession) -> None:
        """Whatever that session is doing by now."""
        if session.alive and session.waits_for is not None:
            self._give_up(session)
        elif session.statement is not None:
            session.statement.interrupted()

    # Locks.

    def owner(self, lock: bytes) -> ServerSession | None:
        return self._owners.get(lock)

    def numbers(self, locks: list[bytes]) -> dict[bytes, int]:
        return {lock: self._owners[lock].number for lock in locks if lock in self._owners}

    def seize(self, session: ServerSession, lock: bytes) -> bool:
        """Take it if it is free."""
        got = self._owners.setdefault(lock, session) is session
        if got:
            session.locks[lock] = None
        return got

    def free(self, session: ServerSession, lock: bytes | None) -> None:
        """One lock, or all; and the next in line has it."""
        for each in [lock] if lock is not None else list(session.locks):
            if each in session.locks:
                self._pass_on(session, each)

    def _pass_on(self, session: ServerSession, lock: bytes) -> None:
        del session.locks[lock], self._owners[lock]
        queue = self._queues.get(lock)
        if queue:
            successor = queue.popleft()
            successor.call_off()
            successor.waits_for = None
            self.seize(successor, lock)
            self.done(successor, True)

    def wait(self, session: ServerSession, lock: bytes) -> None:
        if self.network.befalls("deadlocks"):
            self.done(session, False)
        elif self.seize(session, lock):
            self.done(session, True)
        else:
            session.waits_for = lock
            self._queues.setdefault(lock, deque()).append(session)
            session.call_off = self.world.after(WAIT, lambda: self._give_up(session))

    def _give_up(self, session: ServerSession) -> None:
        if session.waits_for is not None:
            session.call_off()
            self._queues[session.waits_for].remove(session)
            session.waits_for = None
            self.done(session, False)

    # Statements of a session.

    def enter(self, session: ServerSession, gate: bytes, own: bytes | None, wanted: Take) -> None:
        """Whatever it has is given up first; then the gate, and if it was free, the row."""
        self._is_for(session, wanted.key)
        self.free(session, None)
        got = (own is None or self.seize(session, own)) and self.seize(session, gate)
        rows = (wanted.key,) if got else ()

        def run(store: Any, now: int) -> tuple[bool, int, Seen]:
            seen = store.take(wanted, now) if got else Seen(store.rows.get(wanted.key), now)
            return got, session.number, seen

        self._say(session, Statement(run, (wanted.claim_id,), rows))

    def take(self, session: ServerSession, wanted: Take) -> None:
        self._is_for(session, wanted.key)
        statement = Statement(
            lambda store, now: store.take(wanted, now), (wanted.claim_id,), (wanted.key,)
        )
        self._say(session, statement)

    def give_back(self, session: ServerSession, hold: GiveBack) -> None:
        statement = Statement(
            lambda store, now: store.give_back([hold], now)[0],
            (hold.claim_id,),
            (hold.key,),
            withdraws=True,
        )
        said = self._say(session, statement, lambda: self.free(session, None))
        said.frees_early = self._as_mysql

    def _do(self, question: Any, began: int) -> None:
        """On MySQL a release frees the session's locks before it is committed. Until then others
        see the row as it was, and whoever would write it waits.
        """
        if question.generation != self.generation or not getattr(question, "frees_early", False):
            super()._do(question, began)
            return
        question.frees_early = False
        (key,), (claim_id,) = question.statement.rows, question.statement.actors
        row = self.table.rows.get(key)
        if row is None or claim_id not in row.holders:
            super()._do(question, began)
            return
        self.free(question.session, None)
        commits = self.world.random.uniform(0.0, 0.01)
        name = bare(key[1:].decode())
        self._locked[name] = max(self._locked.get(name, 0.0), self.world.now + commits + AFTER)
        self.world.after(commits, lambda: super(SessionDatabase, self)._do(question, began))

    def _say(
        self,
        session: ServerSession,
        statement: Statement,
        then: Callable[[], None] = nothing,
    ) -> SessionStatement:
        said: Any = SessionStatement(self, session, statement, then)
        self._begin(said, self.microseconds())
        made: SessionStatement = said
        return made

    def _is_for(self, session: ServerSession, key: bytes) -> None:
        session.names[bare(key[1:].decode())] = None

    # Faults.

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        yield from super().strikes(faults)
        if isinstance(faults, SessionFaults):
            yield faults.sessions_killed, self._kill_one
            yield faults.heartbeats_stop, self._stop_a_heart

    def _hang_up(self) -> None:
        """A server that starts anew begins to count its sessions anew."""
        super()._hang_up()
        self._starting = True
        for session in list(self.sessions.values()):
            self.end(session)
        self._starting = False
        self._numbers = 0

    def _cut_some(self) -> None:
        super()._cut_some()
        for session in list(self.sessions.values()):
            if self.world.chance(0.3):
                self.end(session)

    def _kill_one(self) -> None:
        used = [each for each in self.sessions.values() if each.locks or each.busy]
        if used:
            self.world.faults["sessions_killed"] += 1
            self.end(self.world.random.choice(used))

    def _stop_a_heart(self) -> None:
        names = list(self.claims)
        if names:
            self.world.faults["heartbeats_stop"] += 1
            lasts = self.world.random.choice(STANDS_STILL)
            self.hearts[self.world.random.choice(names)] = self.world.now + lasts

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        yield from super().leftovers()
        for session in self.sessions.values():
            unknown = session.wire is None or session.wire.severed
            for name in session.names if not unknown and (session.locks or session.busy) else ():
                yield name, "", "a session that has a lock, or waits for one"
