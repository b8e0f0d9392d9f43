"""A hold that lives on without a process: a slot with a deadline, until somebody adopts it.

The kernel's locks are dropped, and everybody who gets them sees the deadline and steps back. Who
adopts must get the kernel lock first, so of two only one finds the slot still parked (S15). What is
stored is a digest of the claim id. The deadline counts by this boot's clock: a reboot ends it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from locknut.backends.file import kernel, slots
from locknut.backends.file.holding import lost
from locknut.backends.file.identity import UNKNOWN_BOOT, boot_clock
from locknut.backends.file.kernel import READ, WRITE
from locknut.backends.file.layout import (
    BLANK,
    EXCLUSIVE,
    LOCK,
    META,
    OWNED,
    OWNERS,
    READERS,
    SHARED,
    SLOT,
    Record,
    digest,
)
from locknut.backends.file.outcomes import Crowded, Orphaned
from locknut.backends.file.places import Place
from locknut.backends.file.recipe import Recipe
from locknut.core.values import Claim, Granted
from locknut.errors import BackendError, Unsupported

_REOPENS: Final = 20
_SPINS: Final = 2000


def park(recipe: Recipe, claim: Claim, ttl: float) -> bool:
    if recipe.me.boot == UNKNOWN_BOOT:
        message = "a detached hold counts by this boot's clock, and there is no /proc to tell boots"
        raise Unsupported(message, key=claim.key, backend="file")
    place = recipe.places.get(claim.id)
    if place is None or place.raw is None:
        return False
    with place.mutex:
        if lost(place):
            return False
        try:
            _write_parked(recipe, place, boot_clock() + int(ttl * 1e9))
        except Orphaned:
            return False  # broken since we looked
        except BaseException:  # Ctrl-C, perhaps before META was given up: we hold on
            kernel.drop(place.file.fd, META, 1)
            raise
        recipe.leave(place)  # the head of the line is rung, and learns when to come again
        recipe.put_away(place)
    return True


def adopt(recipe: Recipe, parked: Claim, claim: Claim) -> Granted | None:
    place = recipe.place(claim)
    with place.mutex:
        if place.raw is None:
            place.raw = _adopted(recipe, place, digest(parked.id))
        if place.raw is not None:
            return Granted(place.raw)
        recipe.leave(place)
        recipe.put_away(place)
    return None


def _write_parked(recipe: Recipe, place: Place, until: int) -> None:
    file, fd = place.file, place.file.fd
    with slots.Meta(fd):
        last = file.read(time.time_ns())
        if place.slot is None:
            place.slot = slots.take_listed(file, last, recipe.me)
        if place.slot is None:
            raise BackendError("too many hold this name to park one", key=place.claim.key)
        record = last if place.mode == EXCLUSIVE else slots.read(fd, place.slot) or last
        kept = record._replace(until=until, boot=recipe.me.boot, parked=digest(place.claim.id))
        slots.write(fd, place.slot, kept)
        file.write(last._replace(until=max(until, slots.still_parked(last, recipe.me))))


def _adopted(recipe: Recipe, place: Place, wanted: bytes) -> int | None:
    """The parked hold's number, now ours; None if it is not there (any more).

    We may still have a former file of this name open: the hold is in the one that counts.
    """
    for _ in range(_REOPENS):
        with suppress(Orphaned):
            return _adopted_here(recipe, place, wanted)
        recipe.open_again(place)
    raise Crowded


def _adopted_here(recipe: Recipe, place: Place, wanted: bytes) -> int | None:
    for _ in range(_SPINS):
        found = _find(recipe, place, wanted)
        if found is None:
            if place.file.dead():
                raise Orphaned
            return None
        if _lock(place, found[1].mode):
            return _take_over(recipe, place, wanted)
        os.sched_yield()  # somebody looks at the deadline this moment, and will step back
    raise Crowded


def _find(recipe: Recipe, place: Place, wanted: bytes) -> tuple[int, Record] | None:
    last = place.file.read(time.time_ns())
    kept = slots.parked(place.file.fd, last, recipe.me)
    return next((one for one in kept.items() if one[1].parked == wanted), None)


def _lock(place: Place, mode: int) -> bool:
    fd = place.file.fd
    if mode == EXCLUSIVE:
        return kernel.take(fd, WRITE, LOCK, 1)
    if mode == SHARED:
        return kernel.take(fd, READ, READERS, LOCK + 1 - READERS)
    return mode != OWNED or (kernel.take(fd, READ, LOCK, 1) and kernel.take(fd, READ, OWNERS, 1))


def _take_over(recipe: Recipe, place: Place, wanted: bytes) -> int | None:
    file, fd, me = place.file, place.file.fd, recipe.me
    with slots.Meta(fd):
        found = _find(recipe, place, wanted)
        if found is None:
            return None
        slot, record = found
        ours = place.record(record.mode, record.raw, record.since * 1000, me)
        place.mode = record.mode
        if record.mode == EXCLUSIVE:
            slots.write(fd, slot, BLANK)
            file.write(ours)
            return record.raw
        if not kernel.take(fd, WRITE, SLOT + slot, 1):
            raise Crowded
        place.slot = slot
        slots.write(fd, slot, ours)
        last = file.read(time.time_ns())
        rest = slots.parked(fd, last, me).values()
        file.write(last._replace(until=max((one.until for one in rest), default=0)))
    return record.raw
