"""What becomes of a hold: is it still ours, and an exclusive one turned into a shared one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from locknut.backends.file import kernel, notes, slots
from locknut.backends.file.kernel import END, READ
from locknut.backends.file.layout import (
    BROKEN,
    EXCLUSIVE,
    LOCK,
    META,
    PERMIT,
    QUEUE,
    READERS,
    SHARED,
)
from locknut.backends.file.outcomes import Orphaned
from locknut.backends.file.places import Place
from locknut.core.values import Broken, Claim, Renewal, Renewed
from locknut.errors import Unsupported

if TYPE_CHECKING:
    from locknut.backends.file.recipe import Recipe


def renew(recipe: Recipe, claims: Sequence[Claim]) -> list[Renewed]:
    return [_renewal(recipe.places.get(claim.id)) for claim in claims]


def _renewal(place: Place | None) -> Renewed:
    """The kernel keeps the hold; all there is to learn is whether it was ended by force."""
    if place is None or place.raw is None:
        return Renewal.LOST
    with place.mutex:
        if not lost(place):
            return Renewal.HELD
        note = notes.read(place.file.fd, place.raw)
        return Broken(note) if note else Renewal.LOST


def lost(place: Place) -> bool:
    """`put_out`, by a careful look."""
    return place.raw is None or place.file.lost(place.raw) or put_out(place)


def put_out(place: Place) -> bool:
    """Whether this hold was ended by force."""
    if place.mode == PERMIT and place.slot is not None:
        record = slots.read(place.file.fd, place.slot)
        if record is not None and record.raw == place.raw and record.flags & BROKEN:
            return True
    return place.raw is None or place.file.ended(place.raw)


def downgrade(recipe: Recipe, claim: Claim) -> bool:
    place = recipe.places.get(claim.id)
    if place is None or place.raw is None:
        return False
    if place.mode not in (EXCLUSIVE, SHARED):
        message = "a permit, or a hold with an owner, cannot be turned into a shared one"
        raise Unsupported(message, key=claim.key, backend="file")
    with place.mutex:
        if lost(place):
            return False
        if place.mode == EXCLUSIVE:
            try:
                _turn_shared(recipe, place)
            except Orphaned:
                return False  # broken since we looked
            except BaseException:  # Ctrl-C, perhaps before META was given up: we hold on
                kernel.drop(place.file.fd, META, 1)
                raise
    return True


def _turn_shared(recipe: Recipe, place: Place) -> None:
    """Take the reader's bytes while still alone, then turn the lock itself: it is never free."""
    file, fd = place.file, place.file.fd
    kernel.take(fd, READ, READERS, 1)
    with slots.Meta(fd):
        record = file.read(time.time_ns())._replace(mode=SHARED)
        place.slot = slots.take_listed(file, record, recipe.me)
        if place.slot is not None:
            slots.write(fd, place.slot, record)
        file.write(record)
    kernel.take(fd, READ, LOCK, 1)
    kernel.drop(fd, QUEUE, END)
    place.mode = SHARED
    recipe.ring_first(file, sure=False)
