"""Ending a hold by force: the file of a lock is buried, the slot of a permit is marked.

A kernel lock cannot be taken from its holder, so the lock's file is: whoever comes next finds a new
one, and the old holder learns of it at its next heartbeat. Breaking one reader therefore ends all
readers of that name. A permit is counted no more once its slot is marked; the others stay.
"""

from __future__ import annotations

from locknut.backends.file import burying, descriptors, notes, slots
from locknut.backends.file.files import LockFile
from locknut.backends.file.inspecting import look
from locknut.backends.file.layout import BLANK, BROKEN
from locknut.backends.file.naming import file_name
from locknut.backends.file.recipe import Recipe
from locknut.core.values import LockInfo, Mode


def break_hold(recipe: Recipe, key: str, raw: int | None, note: str = "") -> LockInfo | None:
    """The lock of this name; if nothing was there to break, its semaphore."""
    for mode in (Mode.EXCLUSIVE, Mode.PERMIT):
        if (broken := _break(recipe, key, mode, raw, note)) is not None:
            return broken
    return None


def _break(recipe: Recipe, key: str, mode: Mode, raw: int | None, note: str) -> LockInfo | None:
    file = recipe.files.open_existing(file_name(key, mode))
    if file is None:
        return None
    try:
        with slots.Meta(file.fd):
            last = file.glance().raw  # first: who comes in from here on has a higher number
            info = look(file, recipe.me)
            if info is None or not _meant(info, raw):
                return None
            one = raw if mode is Mode.PERMIT else None  # breaking a lock ends all its holds
            with notes.passed_on(file.fd, one or 0, one or last, note) as sent:
                if mode is Mode.PERMIT:
                    _mark(recipe, file, raw)
                elif not burying.bury(file, last, whoever=raw is None):
                    return None
                sent.stays = True
        recipe.ring_first(file, sure=True)  # and each who moves to the new file rings the next
        return info
    finally:
        descriptors.close(file.fd)


def _meant(info: LockInfo, raw: int | None) -> bool:
    return any(raw is None or holder.raw == raw for holder in info.holders)


def _mark(recipe: Recipe, file: LockFile, raw: int | None) -> None:
    last = file.glance()
    kept = slots.parked(file.fd, last, recipe.me)
    for slot, record in enumerate(slots.table(file.fd)):
        if record is None or raw not in (None, record.raw):
            continue
        if slot in kept:
            slots.write(file.fd, slot, BLANK)
        elif slots.taken(file.fd, slot):
            slots.write(file.fd, slot, record._replace(flags=BROKEN))
    file.write(last._replace(flags=BROKEN))
