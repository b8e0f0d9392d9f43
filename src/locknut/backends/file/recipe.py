"""What each command does to the lock file; nothing here waits, so both colours share it.

Kernel locks on bytes of the file decide who holds; `layout` says which byte means what. An attempt
ends in one of these ways:

1. *Granted*: `_enter` has locked what its mode needs, and written the number and who holds.
   A first attempt may barge in, before those who wait, unless it is fair.
2. *Refused, and it does not wait* (`timeout=0`): nothing of it is left (`_turn_away`).
3. *Refused, and it waits*: it takes a ticket, hangs up its bell, and tries once more, because the
   lock may have been freed in between. From then on it goes in order (`lining`).
4. *Refused, with enough waiters of this process in line*: it is sent out, where it needs no
   descriptor, and is called in when there is room (`anteroom`).
5. *Orphaned*: the file was broken, removed or moved while we asked. We ask in the file that counts.
6. *Crowded*: another process was stopped in the middle of a change. We look again soon.

An attempt that fails drops whatever it has locked, and rings whom that may have kept out.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final
from weakref import finalize

from locknut.backends.file import burying, cleaning, descriptors, kernel, line, slots, waiting, ways
from locknut.backends.file.anteroom import Anteroom
from locknut.backends.file.bells import Bell, Ringer, close_all
from locknut.backends.file.files import NO_FILE, OUTSIDE_FILE, Files, LockFile
from locknut.backends.file.folder import EVERY
from locknut.backends.file.holding import put_out
from locknut.backends.file.identity import this_process
from locknut.backends.file.kernel import drop_all_and_look
from locknut.backends.file.layout import (
    EXCLUSIVE,
    PERMIT,
)
from locknut.backends.file.lining import NET, Lining
from locknut.backends.file.outcomes import Crowded, Orphaned, Refused, Reserved
from locknut.backends.file.places import BARGE, Place
from locknut.core.values import Answer, Busy, Claim, Granted

_REOPENS: Final = 20
"""Files that may be orphaned under us in one attempt, before we come back later."""
_SOON: Final = 0.002
_BARRED: Final = 1000
_FORGIVEN: Final = 200
"""Barred claims that are remembered, and how many of the oldest are forgotten at a time."""
_MOST_USED: Final = 4
_new_tuple = tuple.__new__


class Recipe(Lining):
    """The claims of one directory in this process, whatever colour they come from."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._used: list[Bell] = []
        """Bells of those who have been woken: closed when there is time, not on the way out."""
        self.places: dict[str, Place] = {}
        self._barred: dict[str, None] = {}
        descriptors.tell_after_fork(self)
        finalize(self, _close, files, self.ringer, self._used).atexit = False

    def attempt(self, claim: Claim) -> Answer:
        place = self.places.get(claim.id)
        if place is None:
            if self._barred and claim.id in self._barred:
                return Busy(NET)
            # Until its first attempt is answered nobody else has a word on a claim: no mutex.
            place = self._new_place(claim)
            answer = self._ask(place)
        else:
            with place.mutex:
                answer = self._ask_again_by(place)
        if place.counted and place.raw is not None:  # in, so one who was sent out may come in
            self._leave_line(place)
        return answer

    def _ask_again_by(self, place: Place) -> Answer:
        if place.raw is not None:
            return Granted(place.raw)
        if place.file is NO_FILE:
            return Busy(NET)  # released meanwhile, by another thread
        if place.file is OUTSIDE_FILE and not self.anteroom.go_in(place):
            return self._stay_out()
        return self._ask(place)

    def _ask(self, place: Place) -> Answer:
        try:
            if place.file is OUTSIDE_FILE:
                self._come_in(place)
            if place.ticket is not None and place.bell is not None and place.hung != place.ticket:
                return self._ask_again(place)  # first the bell: with that we ask anyway
            return self._enter(place) or self._ask_again(place)
        except Orphaned:
            return self._move_house(place)
        except Crowded:
            return _soon(place)

    def _move_house(self, place: Place) -> Answer:
        """Ask in the file that counts, wherever it is by then."""
        for _ in range(_REOPENS):
            with suppress(Orphaned):
                self.open_again(place)
                try:
                    return self._enter(place) or self._ask_again(place)
                except Crowded:
                    break
        return _soon(place)

    def place(self, claim: Claim) -> Place:
        """What is known of this claim; made at its first attempt or watch."""
        return self.places.get(claim.id) or self._new_place(claim)

    def _bar(self, claim: Claim) -> None:
        """No command is ever late here, but whoever says one may be is believed (L3)."""
        self._barred[claim.id] = None
        if len(self._barred) > _BARRED:
            # A copy: the keeper's thread bars too, and may do so right now.
            for oldest in list(self._barred)[:_FORGIVEN]:
                self._barred.pop(oldest, None)

    def _new_place(self, claim: Claim) -> Place:
        file = self.files.take(claim.key, claim.mode)
        if file is None:
            file = self.files.open(claim.key, claim.mode)
            if self.files.created >= EVERY:
                cleaning.in_passing(self.files, self.me)
        place = self.places[claim.id] = Place(claim, file)
        return place

    def release(self, claim: Claim, *, doubtful: bool = False) -> bool:
        if doubtful:
            self._bar(claim)
        place = self.places.get(claim.id)
        if place is None:
            return False
        with place.mutex:
            held = self._release(place)
        if place.counted:
            self._leave_line(place)
        return held

    def withdraw(self, claim: Claim) -> None:
        """A claim whose waiter never comes back, unless it is held by now."""
        place = self.places.get(claim.id)
        if place is not None and place.raw is None:
            self.release(claim)

    def _release(self, place: Place) -> bool:
        file = place.file
        if file is NO_FILE:
            return False  # released meanwhile, by another thread
        held = False
        if file is not OUTSIDE_FILE:
            if place.mode == EXCLUSIVE:
                held = self._leave_alone(file, place.raw)
            else:
                held = place.raw is not None and not put_out(place)
                self.leave(place)
        self.put_away(place)
        return held

    def put_away(self, place: Place) -> None:
        """Its mutex held and everything dropped: the claim is over, the descriptor another's.

        Only now is the place forgotten: a release that was interrupted before can be asked again.
        """
        file, place.file = place.file, NO_FILE
        if file is not OUTSIDE_FILE:
            self.files.give_back(file)
        self.places.pop(place.claim.id, None)
        if place.used is not None:
            self._used.append(place.used)
            if len(self._used) > _MOST_USED:
                close_all(self._used)

    def forget(self) -> None:
        """In a forked child: nothing of this is ours. The descriptors are closed already (S17)."""
        self.files.forget()
        self.ringer.forget()
        self._used.clear()
        self.anteroom = Anteroom()
        self.places = {}
        self.me = this_process()

    def close(self) -> None:
        _close(self.files, self.ringer, self._used)

    # -- one attempt

    def _enter(self, place: Place) -> Granted | None:
        """Take the key now, as things stand; None if refused."""
        try:
            raw = ways.BY_MODE[place.mode](place, self.me)
        except Refused as refused:
            self._step_back(place)
            place.reserved = refused.left if isinstance(refused, Reserved) else None
            return None
        except BaseException:
            self._drop(place)
            self.ring_first(place.file, sure=False)
            raise
        if raw is None:
            place.reserved = None
            return None
        place.raw = raw  # from here on a release has something to give back
        if place.ticket is not None and place.mode != EXCLUSIVE:
            self._let_others_in(place, place.ticket)
        return _new_tuple(Granted, (raw, None, None, None))  # half the price of Granted(raw)

    def _ask_again(self, place: Place) -> Answer:
        """Refused: take a ticket, then hang the bell, then settle down to wait."""
        if place.ticket is None:
            if place.file.dead() or cleaning.in_progress(place.file.fd):
                os.sched_yield()
                raise Orphaned  # what was in the way is not a holder
            away = self._line_up(place)
            if away is not None:
                return away
            if place.bell is None:  # the core watches from the second question on
                return Busy(place.reserved or NET)
        if self._hang_bell(place):  # whoever left before it hung has rung nobody: try once more
            granted = self._enter(place)
            if granted is not None:
                return granted
        if not waiting.settle(place, self.me):  # a holder died meanwhile, and rang nobody
            granted = self._enter(place)
            if granted is not None:
                return granted
        if self._used:
            close_all(self._used)
        place.soon = 0.0
        return Busy(min(place.net, place.reserved or place.net))

    def _line_up(self, place: Place) -> Answer | None:
        """Take a ticket; an answer if this claim has no place in the line, or not yet."""
        if not place.claim.waits:
            return self._turn_away(place)
        if not self.anteroom.go_in(place):
            return self._send_out(place)
        self._take_ticket(place)
        return None

    def _turn_away(self, place: Place) -> Answer:
        """A mere try leaves nothing behind: a ticket would turn others away."""
        if place.watched:
            return Busy(NET)
        self.put_away(place)
        return Busy(NET, lined=False)

    def open_again(self, place: Place) -> None:
        """Move to the file that counts; first our place, then the next one behind us: in order."""
        old = place.file
        with suppress(Crowded), slots.Meta(old.fd):
            burying.finish(old)
        place.file = self.files.open(place.claim.key, place.claim.mode)
        place.former, place.ticket, place.request = place.ticket or place.former, None, BARGE
        if place.former is not None:
            with suppress(Crowded):
                self._take_ticket(place)
        kernel.drop_all(old.fd)  # before the close: a forked child may have a copy open (S17)
        self.ring_first(old, sure=True)
        descriptors.close(old.fd)

    # -- holds

    def leave(self, place: Place) -> None:
        """Drop all there is, whatever we believe to hold: an interrupt may have come in between."""
        file = place.file
        kernel.drop_all(file.fd)
        self.ring_first(file, sure=place.raw is not None and place.mode in (EXCLUSIVE, PERMIT))

    def _leave_alone(self, file: LockFile, raw: int | None) -> bool:
        """Whether the hold was ended by force is asked first: while we have the lock, a break that
        we see is not called off any more.
        """
        fd = file.fd
        try:
            held = raw is not None and not file.ended(raw)
        finally:
            waiter = drop_all_and_look(fd, line.ANYBODY)
            if waiter is not None:
                self._ring_head(file, waiter)
        return held


def _soon(place: Place) -> Busy:
    """Somebody was stopped in the middle: each time it takes longer until we look again."""
    place.soon = min(max(_SOON, place.soon * 2), NET)
    return Busy(place.soon)


def _close(files: Files, ringer: Ringer, used: list[Bell]) -> None:
    files.close_idle()
    ringer.close()
    close_all(used)
