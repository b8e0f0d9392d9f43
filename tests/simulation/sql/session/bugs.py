"""Bugs of locks that belong to a database's session, many known from others: each must be found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from locknut.backends.sql import hold_records
from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.session.backend import SessionBackend
from locknut.backends.sql.session.claim_sessions import ClaimSession, ClaimSessions
from locknut.backends.sql.session.lock_owners import LockOwners
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.core import renewing
from locknut.core.client import Client
from locknut.core.values import Claim, Notice
from tests.simulation.bugs import Bug, core
from tests.simulation.sql.database import PrunedSoon
from tests.simulation.sql.session.backend import SimSession
from tests.simulation.sql.session.engine import ASSUMED, SESSION
from tests.simulation.sql.session.faults import SessionFaults
from tests.simulation.sql.session.lock_sessions import SimLockSession, SimLockSessions
from tests.simulation.sql.session.server import SessionDatabase
from tests.simulation.sql.session.server_session import ServerSession
from tests.simulation.variant import Patch, Variant


def believed(
    *patches: Patch,
    rules: str,
    faults: SessionFaults = SessionFaults(),  # noqa: B008  # frozen
    only: tuple[str, ...] = ("mutex",),
    sound: Variant = SESSION,
) -> Bug:
    """The client believes something else than the recipe."""
    return Bug(replace(sound, patches=patches), rules, faults, only, sound=sound)


def served(
    server: Callable[..., SessionDatabase],
    rules: str,
    faults: SessionFaults = SessionFaults(),  # noqa: B008  # frozen
    only: tuple[str, ...] = ("mutex",),
    sound: Variant = SESSION,
) -> Bug:
    """What is said to the server is something else."""
    return Bug(replace(sound, node=server), rules, faults, only, sound=sound)


class LocksAreBelieved(PrunedSoon):
    """Whoever has the database's lock is granted: the row, and who may still believe in it, is not
    looked at (S13).
    """

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        if row is not None and (wanted.mode == "e" or row.company[:1] == "e"):
            kept = [each for each in hold_records.read(row.holders) if each.head == wanted.claim_id]
            self.rows[wanted.key] = row._replace(holders=hold_records.written(kept))
        return super().take(wanted, now)


class RollsBack(SessionDatabase):
    """A grant's number is a part of the transaction that the session keeps open: when the session
    dies, the number is what it was before (S13).
    """

    def __init__(self, *known: Any, **more: Any) -> None:
        super().__init__(*known, **more)
        self._before: dict[ServerSession, tuple[bytes, int]] = {}

    def enter(self, session: ServerSession, gate: bytes, own: bytes | None, wanted: Take) -> None:
        self._note(session, wanted)
        super().enter(session, gate, own, wanted)

    def take(self, session: ServerSession, wanted: Take) -> None:
        self._note(session, wanted)
        super().take(session, wanted)

    def _note(self, session: ServerSession, wanted: Take) -> None:
        row = self.table.rows.get(wanted.key)
        self._before[session] = wanted.key, row.fence if row is not None else 0

    def end(self, session: ServerSession, *, silently: bool = False) -> None:
        key, fence = self._before.get(session, (b"", 0))
        row = self.table.rows.get(key)
        if session.alive and session.locks and row is not None:
            self.table.rows[key] = row._replace(fence=min(row.fence, fence))
        super().end(session, silently=silently)


class GateFirst(SimLockSession):
    """A release frees the lock, and then gives the row back: whoever has the lock by then finds a
    holder that seems to have died.
    """

    async def give_back(self, hold: GiveBack) -> Seen:
        await self.free(None)
        return await super().give_back(hold)


class HastySessions(SimLockSessions):
    session_type = GateFirst


class ReleasesTheGateFirst(SimSession):
    """A client of such sessions."""

    sessions_type = HastySessions


class WithoutALockOfItsOwn(SimLockSession):
    """A reader leaves the gate and keeps nothing: nobody can tell whether it still lives."""

    async def enter(self, gate: bytes, own: bytes | None, wanted: Take) -> tuple[bool, Seen | None]:
        return await super().enter(gate, None, wanted)


class Lockless(SimLockSessions):
    session_type = WithoutALockOfItsOwn


class ReadsWithoutALock(SimSession):
    """A client of such sessions."""

    sessions_type = Lockless


def whoever_has_it(_: Any) -> Callable[..., Any]:
    """Somebody has the lock, so we do: that a session was exchanged in silence is not noticed."""

    async def has(_backend: SessionBackend, _claim: Claim, owner: int | None) -> bool:
        return owner is not None

    return has


def by_the_row_alone(_: Any) -> Callable[..., Any]:
    """A renewal extends the row, and does not ask whether the session lives."""

    async def renew(backend: SqlBackend, claims: Sequence[Claim]) -> list[Notice]:
        return await SqlBackend.renew(backend, claims)

    return renew


def a_cancelled_wait_has_nothing(release_used: Any) -> Callable[..., Any]:
    """Who gives up while it waits has no lock, although it may have got it in that moment."""

    async def release(
        backend: SessionBackend, used: ClaimSession, *, outcome_unknown: bool
    ) -> bool:
        if not used.holds and not outcome_unknown:
            return False
        released: bool = await release_used(backend, used, outcome_unknown=outcome_unknown)
        return released

    return release


def not_cancelled(_: Any) -> Callable[..., Any]:
    """Who gives up leaves its wait behind, and its session to the next claim."""

    async def in_order(_: SessionBackend, used: ClaimSession) -> bool:
        return used.session.alive()

    return in_order


def kept_for_others(_: Any) -> Callable[[ClaimSessions, ClaimSession], None]:
    """A session without an answer is used again, for another claim."""

    def back(claims: ClaimSessions, used: ClaimSession) -> None:
        claims.forget(used)
        used.session.back()

    return back


def nobody_is_suspected(_: Any) -> Callable[..., Any]:
    """A session that has the lock and never comes to the row is waited for for ever."""

    async def suspect(*_: object) -> bool:
        return False

    return suspect


_KILLED = SessionFaults(sessions_killed=1.0)
_SLOW = SessionFaults(slow=0.9, processes_stop=1.0)
_LOSSY = SessionFaults(request_lost=0.05, reply_lost=0.05, late=0.05, slow=0.2)
_PROMPT = replace(SESSION, assumptions=replace(ASSUMED, free_within=1.0))
"""Where nothing happens to anybody, the next one is in at once."""

BUGS: dict[str, Bug] = {
    "session-lock-believed": served(partial(SessionDatabase, table=LocksAreBelieved), "a", _KILLED),
    "session-readers-passed-over": served(
        partial(SessionDatabase, table=LocksAreBelieved), "a", _KILLED, ("shelf",)
    ),
    "session-grant-from-the-answer": believed(
        Patch(Client, "lend", core.counted_from_the_reply), rules="a", faults=_SLOW
    ),
    "session-heartbeat-from-the-answer": believed(
        Patch(renewing, "renewed", core.renewed_from_the_reply),
        rules="ad",
        faults=SessionFaults(slow=0.4, heartbeats_stop=1.0, processes_stop=1.0),
    ),
    "session-number-rolled-back": served(
        RollsBack, "b", SessionFaults(sessions_killed=1.0, clock_set_back=0.5)
    ),
    "session-reconnect-unnoticed": believed(
        Patch(SessionBackend, "_has_session", whoever_has_it),
        rules="g",
        faults=SessionFaults(sessions_killed=1.0, silent_reconnects=1.0),
    ),
    "session-extended-without-it": believed(
        Patch(SessionBackend, "renew", by_the_row_alone), rules="g", faults=_KILLED
    ),
    "session-gate-before-row": Bug(
        replace(_PROMPT, backend=ReleasesTheGateFirst), "f", SessionFaults(), sound=_PROMPT
    ),
    "session-reader-without-a-lock": Bug(
        replace(SESSION, backend=ReadsWithoutALock), "d", SessionFaults(), ("shelf",), sound=SESSION
    ),
    "session-cancelled-wait-has-nothing": believed(
        Patch(SessionBackend, "_release_used", a_cancelled_wait_has_nothing),
        rules="g",
        faults=SessionFaults(sessions_killed=1.0, tasks_cancelled=4.0),
    ),
    "session-wait-not-cancelled": believed(
        Patch(SessionBackend, "_is_in_order", not_cancelled),
        rules="abdefg",
        faults=SessionFaults(tasks_cancelled=4.0),
    ),
    "session-used-again-in-doubt": believed(
        Patch(ClaimSessions, "drop", kept_for_others), rules="abdefg", faults=_LOSSY
    ),
    "session-stalled-is-waited-for": believed(
        Patch(LockOwners, "_suspect", nobody_is_suspected),
        rules="f",
        faults=SessionFaults(processes_crash=1.0, half_open=1.0, slow=0.3),
    ),
}
