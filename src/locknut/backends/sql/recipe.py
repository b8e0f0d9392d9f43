"""What each verb does to a lock that one statement could not decide: pure, on its whole state.

A change is a function of the state as it was read; it says what the answer is, and who has to be
rung once it is written. If somebody wrote meanwhile, the change is made anew on what stands then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from locknut.backends.sql.lock_state import Held, LockState, Place, Waiting
from locknut.backends.sql.table_port import US
from locknut.core.values import Broken, Claim, Granted, LockInfo, Mode, Notice, Renewal

T = TypeVar("T")
TOMBSTONE = 60.0
"""Longer than a sending can be under way."""
NOTE = 60
"""Seconds for which a holder can learn who broke its lock."""


class Outcome(NamedTuple, Generic[T]):
    """What a change comes to."""

    answer: T
    changed: bool = True
    ring: tuple[Waiting, ...] = ()
    """Whose turn it is now."""


Change = Callable[[LockState], Outcome[T]]


def enter(claim: Claim, place: Place) -> Change[Granted | None]:
    """Let the claim in beside the holders, if it fits."""

    def change(state: LockState) -> Outcome[Granted | None]:
        if claim.id in state.graves:
            return Outcome(None, changed=False)
        held = state.holders.get(claim.id)
        if held is not None:
            state.prolong(held, claim)
            return Outcome(Granted(held.raw))
        if not state.may_enter(claim):
            return Outcome(None, changed=False)
        raw = state.enter(claim, place).raw
        return Outcome(Granted(raw), ring=tuple(state.entering()))

    return change


def renew(claim: Claim) -> Change[Notice]:
    """The full ttl again. What has lost its hold to an older state of the table, in which it still
    waits, does not wait: nobody would come for its turn.
    """

    def change(state: LockState) -> Outcome[Notice]:
        held = state.holders.get(claim.id)
        if held is None:
            note, _ = state.notes.get(claim.id, ("", 0))
            waits = state.line.pop(claim.id, None) is not None
            ring = tuple(state.entering()) if waits else ()
            return Outcome(Broken(note) if note else Renewal.LOST, waits, ring)
        state.prolong(held, claim)
        return Outcome(Renewal.HELD)

    return change


def release(claim: Claim, *, outcome_unknown: bool) -> Change[bool]:
    """Out of the holders and out of the line, and what may still come of it does not get in."""

    def change(state: LockState) -> Outcome[bool]:
        if outcome_unknown:
            state.bury(claim.id, max(claim.ttl or 0.0, TOMBSTONE))
        held = state.holders.pop(claim.id, None)
        waited = state.line.pop(claim.id, None)
        left = held is not None or waited is not None
        ring = tuple(state.entering()) if left else ()
        return Outcome(held is not None, left or outcome_unknown, ring)

    return change


def downgrade(claim: Claim) -> Change[bool]:
    def change(state: LockState) -> Outcome[bool]:
        held = state.holders.get(claim.id)
        if held is None or held.claim.mode is Mode.SHARED:
            return Outcome(held is not None, changed=False)
        held.claim = held.claim._replace(mode=Mode.SHARED)
        return Outcome(True, ring=tuple(state.entering()))

    return change


def detach(claim: Claim, ttl: float) -> Change[bool]:
    def change(state: LockState) -> Outcome[bool]:
        held = state.holders.get(claim.id)
        if held is None:
            return Outcome(False, changed=False)
        held.expires, held.detached = state.now + int(ttl * US), True
        return Outcome(True)

    return change


def attach(detached: Claim, claim: Claim, place: Place) -> Change[Granted | None]:
    """Swap the claim of a hold for another one: of two that try, only the first finds it (S15)."""

    def change(state: LockState) -> Outcome[Granted | None]:
        held = state.holders.get(claim.id) or state.holders.get(detached.id)
        if held is None or claim.id in state.graves:
            return Outcome(None, changed=False)
        # From now on the detached claim is nobody's: a late attempt of it must not get in (L3).
        state.bury(detached.id, max(detached.ttl or 0.0, TOMBSTONE))
        if held.claim.id == claim.id:
            state.prolong(held, claim)
        else:
            state.holders = _replaced(state, held, claim, place)
        return Outcome(Granted(held.raw))

    return change


def _replaced(state: LockState, held: Held, claim: Claim, place: Place) -> dict[str, Held]:
    mine = Held(claim, held.raw, state.end(claim), place)
    everybody = [mine if each is held else each for each in state.holders.values()]
    return {each.claim.id: each for each in everybody}


def undo_attach(claim: Claim, detached: Claim) -> Change[None]:
    """The hold lives on as the detached one, if it was taken over; and is not taken over late."""

    def change(state: LockState) -> Outcome[None]:
        state.bury(claim.id, max(claim.ttl or 0.0, TOMBSTONE))
        held = state.holders.get(claim.id)
        if held is not None:
            state.graves.pop(detached.id, None)
            state.holders = _replaced(state, held, detached, held.place)
            state.holders[detached.id].detached = True
        return Outcome(None)

    return change


def break_hold(raw: int | None, note: str, *, permits: bool) -> Change[LockInfo | None]:
    def change(state: LockState) -> Outcome[LockInfo | None]:
        victims = [each for each in state.holders.values() if raw is None or each.raw == raw]
        if not victims:
            return Outcome(None, changed=False)
        kept, state.holders = state.holders, {each.claim.id: each for each in victims}
        broken = state.shown(permits=permits)._replace(waiters=())
        state.holders = {who: each for who, each in kept.items() if each not in victims}
        for each in victims:
            if note:
                state.notes[each.claim.id] = note, state.now + NOTE * US
        return Outcome(broken, ring=tuple(state.entering()))

    return change


def nothing(state: LockState) -> Outcome[LockState]:
    """Only look."""
    return Outcome(state, changed=False)
