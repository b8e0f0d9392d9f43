"""What happens to a hold after its grant: is it still ours, downgrade, detach and attach.

A detached hold lives on without a process: it is a slot whose record has a deadline. The kernel
locks are dropped, and everybody who gets them sees the deadline and steps back. Whoever attaches
the hold has to get the kernel lock first, so only one of two finds the slot still detached (S15).
The slot stores a digest of the claim id, never the id. The deadline counts by the clock of this
boot, so a reboot ends a detached hold.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from locknut.backends.file import burial, holder_slots, ofd_locks
from locknut.backends.file.claim_state import ClaimState
from locknut.backends.file.file_layout import (
    BLANK,
    BROKEN,
    EXCLUSIVE,
    LOCK,
    META,
    OWNED,
    OWNERS,
    PERMIT,
    QUEUE,
    READERS,
    SHARED,
    SLOT,
    Record,
    digest,
)
from locknut.backends.file.ofd_locks import END, READ, WRITE
from locknut.backends.file.outcomes import Crowded, Orphaned
from locknut.backends.file.this_process import UNKNOWN_BOOT, boot_clock
from locknut.core.values import Broken, Claim, Granted, Renewal, Renewed
from locknut.errors import BackendError, Unsupported

if TYPE_CHECKING:
    from locknut.backends.file.recipe import Recipe

_REOPENS: Final = 20
_SPINS: Final = 2000


def renew(recipe: Recipe, claims: Sequence[Claim]) -> list[Renewed]:
    return [_renewal(recipe.states.get(claim.id)) for claim in claims]


def _renewal(state: ClaimState | None) -> Renewed:
    """The kernel keeps the hold; all there is to learn is whether it was ended by force."""
    if state is None or state.raw is None:
        return Renewal.LOST
    with state.mutex:
        if not is_lost(state):
            return Renewal.HELD
        note = burial.read_note(state.file.fd, state.raw)
        return Broken(note) if note else Renewal.LOST


def is_lost(state: ClaimState) -> bool:
    """The same as `was_broken`, by a careful look: the file's path is compared in any case."""
    return state.raw is None or state.file.lost(state.raw) or was_broken(state)


def was_broken(state: ClaimState) -> bool:
    """Whether this hold was ended by force."""
    if state.mode == PERMIT and state.slot is not None:
        record = holder_slots.read(state.file.fd, state.slot)
        if record is not None and record.raw == state.raw and record.flags & BROKEN:
            return True
    return state.raw is None or state.file.ended(state.raw)


def downgrade(recipe: Recipe, claim: Claim) -> bool:
    state = recipe.states.get(claim.id)
    if state is None or state.raw is None:
        return False
    if state.mode not in (EXCLUSIVE, SHARED):
        message = "a permit, or a hold with an owner, cannot be turned into a shared one"
        raise Unsupported(message, key=claim.key, backend="file")
    with state.mutex:
        if is_lost(state):
            return False
        if state.mode == EXCLUSIVE:
            try:
                _turn_shared(recipe, state)
            except Orphaned:
                return False  # broken since we looked
            except BaseException:  # Ctrl-C, perhaps before META was given up: we hold on
                ofd_locks.drop(state.file.fd, META, 1)
                raise
    return True


def _turn_shared(recipe: Recipe, state: ClaimState) -> None:
    """Take the reader's bytes while still alone, then turn the lock itself: it is never free."""
    file, fd = state.file, state.file.fd
    ofd_locks.take(fd, READ, READERS, 1)
    with holder_slots.SlotsMutex(fd):
        record = file.read(time.time_ns())._replace(mode=SHARED)
        state.slot = holder_slots.take_listed(file, record, recipe.me)
        if state.slot is not None:
            holder_slots.write(fd, state.slot, record)
        file.write(record)
    ofd_locks.take(fd, READ, LOCK, 1)
    ofd_locks.drop(fd, QUEUE, END)
    state.mode = SHARED
    recipe.ring_first(file, sure=False)


def detach(recipe: Recipe, claim: Claim, ttl: float) -> bool:
    if recipe.me.boot == UNKNOWN_BOOT:
        message = "a detached hold counts by this boot's clock, and there is no /proc to tell boots"
        raise Unsupported(message, key=claim.key, backend="file")
    state = recipe.states.get(claim.id)
    if state is None or state.raw is None:
        return False
    with state.mutex:
        if is_lost(state):
            return False
        try:
            _write_detached(recipe, state, boot_clock() + int(ttl * 1e9))
        except Orphaned:
            return False  # broken since we looked
        except BaseException:  # Ctrl-C, perhaps before META was given up: we hold on
            ofd_locks.drop(state.file.fd, META, 1)
            raise
        recipe.drop_and_ring(state)  # the first in line learns when to come again
        recipe.put_away(state)
    return True


def attach(recipe: Recipe, detached: Claim, claim: Claim) -> Granted | None:
    state = recipe.state_of(claim)
    with state.mutex:
        if state.raw is None:
            state.raw = _attached(recipe, state, digest(detached.id))
        if state.raw is not None:
            return Granted(state.raw)
        recipe.drop_and_ring(state)
        recipe.put_away(state)
    return None


def _write_detached(recipe: Recipe, state: ClaimState, until: int) -> None:
    file, fd = state.file, state.file.fd
    with holder_slots.SlotsMutex(fd):
        last = file.read(time.time_ns())
        if state.slot is None:
            state.slot = holder_slots.take_listed(file, last, recipe.me)
        if state.slot is None:
            raise BackendError("too many hold this name to detach one", key=state.claim.key)
        record = last if state.mode == EXCLUSIVE else holder_slots.read(fd, state.slot) or last
        kept = record._replace(until=until, boot=recipe.me.boot, detached=digest(state.claim.id))
        holder_slots.write(fd, state.slot, kept)
        file.write(last._replace(until=max(until, holder_slots.detached_until(last, recipe.me))))


def _attached(recipe: Recipe, state: ClaimState, wanted: bytes) -> int | None:
    """Make the detached hold ours and return its number; None if it is not there (any more).

    We may still have a former file of this name open: the hold is in the one that counts.
    """
    for _ in range(_REOPENS):
        with suppress(Orphaned):
            return _attached_here(recipe, state, wanted)
        recipe.open_again(state)
    raise Crowded


def _attached_here(recipe: Recipe, state: ClaimState, wanted: bytes) -> int | None:
    for _ in range(_SPINS):
        found = _find(recipe, state, wanted)
        if found is None:
            if state.file.dead():
                raise Orphaned
            return None
        if _lock(state, found[1].mode):
            return _take_over(recipe, state, wanted)
        os.sched_yield()  # somebody looks at the deadline this moment, and will step back
    raise Crowded


def _find(recipe: Recipe, state: ClaimState, wanted: bytes) -> tuple[int, Record] | None:
    last = state.file.read(time.time_ns())
    kept = holder_slots.detached(state.file.fd, last, recipe.me)
    return next((one for one in kept.items() if one[1].detached == wanted), None)


def _lock(state: ClaimState, mode: int) -> bool:
    fd = state.file.fd
    if mode == EXCLUSIVE:
        return ofd_locks.take(fd, WRITE, LOCK, 1)
    if mode == SHARED:
        return ofd_locks.take(fd, READ, READERS, LOCK + 1 - READERS)
    return mode != OWNED or (
        ofd_locks.take(fd, READ, LOCK, 1) and ofd_locks.take(fd, READ, OWNERS, 1)
    )


def _take_over(recipe: Recipe, state: ClaimState, wanted: bytes) -> int | None:
    file, fd, me = state.file, state.file.fd, recipe.me
    with holder_slots.SlotsMutex(fd):
        found = _find(recipe, state, wanted)
        if found is None:
            return None
        slot, record = found
        ours = state.record(record.mode, record.raw, record.since * 1000, me)
        state.mode = record.mode
        if record.mode == EXCLUSIVE:
            holder_slots.write(fd, slot, BLANK)
            file.write(ours)
            return record.raw
        if not ofd_locks.take(fd, WRITE, SLOT + slot, 1):
            raise Crowded
        state.slot = slot
        holder_slots.write(fd, slot, ours)
        last = file.read(time.time_ns())
        rest = holder_slots.detached(fd, last, me).values()
        file.write(last._replace(until=max((one.until for one in rest), default=0)))
    return record.raw
