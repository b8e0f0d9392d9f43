"""One lock as its row tells it: holders, line, tombstones and notes; read, changed, written back.

A hold that has run out is not there, and neither is a tombstone or a note: reading drops them.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

from locknut.backends.sql import hold_records
from locknut.backends.sql.hold_records import DETACHED, DIGITS, HoldRecord
from locknut.backends.sql.table_port import ANY, RAW_STEP, US, Row
from locknut.core import admission
from locknut.core.values import Claim, Holder, LockInfo, Mode

_MODES = {mode.value[0]: mode for mode in Mode}
"""By their first letters: e, s, p."""


@dataclass(slots=True)
class Held:
    """One claim's hold."""

    claim: Claim
    raw: int
    expires: int
    place: Place
    detached: bool = False
    """Detached: nothing that comes late shortens it."""


@dataclass(slots=True)
class Waiting:
    """One claim's place in line."""

    claim: Claim
    joined: int
    place: Place
    text: str
    """The whole line of text, as it stands in the row."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a claim comes from; `client` is the Locks that waits, and is rung."""

    client: str = ""
    host: str = ""
    pid: int | None = None
    session: int | None = None
    """The number of the database session that a hold ends with; None: it ends by its ttl alone."""


@dataclass(slots=True)
class LockState:
    """One lock, at one moment of the database's clock."""

    key: str
    now: int
    fence: int = 0
    holders: dict[str, Held] = field(default_factory=dict)
    line: dict[str, Waiting] = field(default_factory=dict)
    graves: dict[str, int] = field(default_factory=dict)
    """Claim ids that must not get in any more, and until when."""
    notes: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By claim id: who broke the hold and why, and until when that is kept."""
    over: list[str] = field(default_factory=list)
    """Holds that have run out and still stand in the row, by the heads of their records: if the
    clock is set back, they are there again."""
    ended: list[Held] = field(default_factory=list)
    """The same holds, whole."""

    def enter(self, claim: Claim, place: Place) -> Held:
        """The claim becomes a holder, and leaves the line. A fellow's number stays an owner's."""
        fellow = next(iter(self.holders.values()), None) if claim.owner is not None else None
        if fellow is None:
            self.fence = max(self.fence + 1, self.now // RAW_STEP)
        held = Held(claim, self.fence if fellow is None else fellow.raw, self.end(claim), place)
        self.holders[claim.id] = held
        self.line.pop(claim.id, None)
        return held

    def end(self, claim: Claim) -> int:
        """When a hold of this claim ends that is granted or renewed now."""
        return self.now + microseconds(claim)

    def prolong(self, held: Held, claim: Claim) -> None:
        """The full ttl from now on; or what is left, if that is more: the hold was detached, or
        this was decided by an earlier clock than the latest renewal (S21).
        """
        held.expires = max(self.end(claim), held.expires)

    def bury(self, claim_id: str, seconds: float) -> None:
        """Leave a tombstone."""
        self.graves[claim_id] = self.now + int(seconds * US)

    def entering(self) -> list[Waiting]:
        """Those in line that can enter now."""
        return [self.line[claim.id] for claim in admission.entering(self)]

    def may_enter(self, claim: Claim) -> bool:
        return admission.may_enter(self, claim)

    def ahead(self, claim: Claim) -> list[Waiting]:
        """Those in line before this claim; for a newcomer, all of them."""
        return [self.line[other.id] for other in admission.ahead(self, claim)]

    def before(self, claim: Claim) -> str:
        """Whose leaving this claim waits for, as `Bells.expect` takes it; empty: nobody's."""
        ahead = self.ahead(claim)
        if ahead:
            return ahead[-1].claim.id
        holds = [held.claim for held in self.holders.values()]
        alone = [each for each in holds if each.mode is Mode.EXCLUSIVE and each.owner is None]
        return alone[0].id if alone and len(holds) == 1 else ANY if holds else ""

    def shown(self, *, permits: bool) -> LockInfo:
        """What people see of it."""
        holders = tuple(
            _shown(held.claim, held.place, held.raw, (held.expires - self.now) / US)
            for held in self.holders.values()
        )
        waiters = tuple(_shown(each.claim, each.place) for each in self.line.values())
        limits = [each.claim.permits for each in self.holders.values()]
        limits += [each.claim.permits for each in self.line.values()]
        limit = max(limits, default=None) if permits else None
        return LockInfo(self.key, holders, waiters, limit)


def microseconds(claim: Claim) -> int:
    """The claim's ttl, rounded up."""
    return -int(-(claim.ttl or 0.0) * US // 1)


@cache
def here(client: str, pid: int) -> Place:
    """This process, for a client of it."""
    return Place(client, socket.gethostname(), pid)


def facts_of(claim: Claim, client: str, session: int | None = None) -> str:
    """What the table says of a claim beside its id: how it shares, and whom people see."""
    place = here(client, os.getpid())
    return _packed(claim, place if session is None else replace(place, session=session))


def read(key: str, row: Row | None, now: int) -> LockState:
    """What a row says, without what has run out by now."""
    state = LockState(key, now)
    if row is None:
        return state
    state.fence = row.fence
    for record in hold_records.read(row.holders):
        claim, place = _unpacked(key, record.claim_id, json.loads(record.facts))
        held = Held(claim, record.raw, record.expires, place, record.detached)
        if record.expires > now:
            state.holders[record.claim_id] = held
        else:
            state.over.append(record.head)
            state.ended.append(held)
    if row.others:
        _read_others(state, json.loads(row.others.partition(" ")[2]))
    for text in filter(None, row.line.split("\n")):
        claim_id, joined, facts = text.split(" ", 2)
        claim, place = _unpacked(key, claim_id, json.loads(facts))
        state.line[claim_id] = Waiting(claim, int(joined), place, text)
    return state


def _read_others(state: LockState, others: dict[str, Any]) -> None:
    for who, until in others.get("graves", {}).items():
        if until > state.now:
            state.graves[who] = until
    for who, (note, until) in others.get("notes", {}).items():
        if until > state.now:
            state.notes[who] = note, until


def written(state: LockState, stamp: int) -> Row:
    """The row that says it."""
    line = "".join(f"{waiting.text}\n" for waiting in state.line.values())
    everybody = state.holders.values()
    return Row(
        state.fence,
        stamp,
        hold_records.written(map(_record, everybody)),
        _company([held.claim for held in everybody]),
        max((held.expires for held in everybody), default=0),
        line,
        _others(state),
    )


def _others(state: LockState) -> str:
    """Tombstones and notes, after when the last of them is over."""
    if not state.graves and not state.notes:
        return ""
    until = max([*state.graves.values(), *(until for _, until in state.notes.values())])
    rest = json.dumps({"graves": state.graves, "notes": state.notes}, separators=(",", ":"))
    return f"{until:0{DIGITS}} {rest}"


def _record(held: Held) -> HoldRecord:
    head = (DETACHED if held.detached else "") + held.claim.id
    return HoldRecord(head, held.expires, held.raw, _packed(held.claim, held.place))


def _company(claims: Sequence[Claim]) -> str:
    """Who may come in beside these."""
    modes, owners = {mode_of(claim) for claim in claims}, {owner_of(claim) for claim in claims}
    mode = modes.pop() if len(modes) == 1 else "e"
    return mode + (owners.pop() if len(owners) == 1 else "") if claims else ""


def mode_of(claim: Claim) -> str:
    """How it holds, in one letter."""
    return claim.mode._value_[0]  # `value` is two calls


def owner_of(claim: Claim) -> str:
    """Whose it is, in ASCII, and never the same for two; empty: nobody's."""
    return "" if claim.owner is None else json.dumps(claim.owner)


def _packed(claim: Claim, place: Place) -> str:
    shares = mode_of(claim), claim.permits, claim.owner
    facts = *shares, claim.who, claim.label, place.client, place.host, place.pid
    return _text(facts if place.session is None else (*facts, place.session))


@lru_cache(maxsize=1000)
def _text(facts: tuple[object, ...]) -> str:
    """Whoever takes locks again and again says the same of itself each time."""
    return json.dumps(facts, separators=(",", ":"))


def _unpacked(key: str, claim_id: str, facts: list[Any]) -> tuple[Claim, Place]:
    mode, permits, owner, who, label, client, host, pid, *more = facts  # a later version: more
    claim = Claim(
        key, claim_id, mode=_MODES[mode], permits=permits, owner=owner, who=who, label=label
    )
    session = more[0] if more and isinstance(more[0], int) else None
    return claim, Place(client, host, pid, session)


def _shown(claim: Claim, place: Place, raw: int | None = None, left: float | None = None) -> Holder:
    """A grant's number is the time of the grant, where the clock was ahead of the count."""
    since = None if raw is None else raw * RAW_STEP / US
    return Holder(
        place.host, place.pid, claim.who, claim.label, claim.mode, raw, since, left, claim.owner
    )
