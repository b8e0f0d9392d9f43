"""What each command does to the lock file; nothing here waits, so both colours share it.

A first attempt may barge in; refused, a claim has its ticket and goes in order. What was locked on
the way is dropped if the attempt fails, and whoever drops anything rings the head of the line: no
wake-up is ever owed by somebody who has forgotten it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final
from weakref import finalize

from locknut.backends.file import burying, cleaning, descriptors, kernel, line, waiting, ways
from locknut.backends.file.bells import Bell, Ringer, address, close_all
from locknut.backends.file.files import EVERY, NO_FILE, Files, LockFile
from locknut.backends.file.holding import put_out
from locknut.backends.file.identity import this_process
from locknut.backends.file.kernel import END, READ, WRITE, drop_all_and_look
from locknut.backends.file.layout import (
    EXCLUSIVE,
    LOCK,
    PERMIT,
    QUEUE,
    SHARED,
)
from locknut.backends.file.outcomes import Crowded, Orphaned, Refused, Reserved
from locknut.backends.file.places import BARGE, Place
from locknut.core.values import Answer, Busy, Claim, Granted

_REOPENS: Final = 200
_SOON: Final = 0.002
_NET: Final = 0.05
_BARRED: Final = 1000
_FORGIVEN: Final = 200
_MOST_USED: Final = 4
_new_tuple = tuple.__new__


class Recipe:
    """The claims of one directory in this process, whatever colour they come from."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.ringer = Ringer()
        self._used: list[Bell] = []
        """Bells of those who have been woken: closed when there is time, not on the way out."""
        self.places: dict[str, Place] = {}
        self._barred: dict[str, None] = {}
        self.me = this_process()
        descriptors.tell_after_fork(self)
        finalize(self, _close, files, self.ringer, self._used).atexit = False

    def attempt(self, claim: Claim) -> Answer:
        place = self.places.get(claim.id)
        if place is None:
            if self._barred and claim.id in self._barred:
                return Busy(_NET)
            # Until its first attempt is answered nobody else has a word on a claim: no mutex.
            return self._ask(self._new_place(claim))
        with place.mutex:
            if place.raw is not None:
                return Granted(place.raw)
            if place.file is NO_FILE:
                return Busy(_NET)  # released meanwhile, by another thread
            return self._ask(place)

    def _ask(self, place: Place) -> Answer:
        try:
            if place.ticket is not None and place.bell is not None and place.hung != place.ticket:
                return self._ask_again(place)  # first the bell: with that we ask anyway
            return self._enter(place) or self._ask_again(place)
        except Orphaned:
            return self._move_house(place)
        except Crowded:
            return Busy(_SOON)

    def _move_house(self, place: Place) -> Answer:
        """Ask in the file that counts, wherever it is by then."""
        for _ in range(_REOPENS):
            with suppress(Orphaned):
                self._open_again(place)
                try:
                    return self._enter(place) or self._ask_again(place)
                except Crowded:
                    break
        return Busy(_SOON)

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
            file = place.file
            if file is NO_FILE:
                return False  # released meanwhile, by another thread
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
        self.files.give_back(file)
        self.places.pop(place.claim.id, None)
        if place.bell is not None and not place.watched:
            self._used.append(place.bell)
            if len(self._used) > _MOST_USED:
                close_all(self._used)

    def forget(self) -> None:
        """In a forked child: nothing of this is ours. The descriptors are closed already (S17)."""
        self.files.forget()
        self.ringer.forget()
        self._used.clear()
        self.places = {}
        self.me = this_process()

    def close(self) -> None:
        _close(self.files, self.ringer, self._used)

    def ring_first(self, file: LockFile, *, sure: bool) -> None:
        """Wake the head of the line; unless `sure`, only if it could enter now."""
        head = line.first(file.fd)
        if head is not None and (sure or line.may_enter(file.fd, head)):
            self.ringer.ring(address(file.bell, head.start))

    # -- one attempt

    def _enter(self, place: Place) -> Granted | None:
        """Take the key now, as things stand; None if refused."""
        try:
            raw = ways.BY_MODE[place.mode](place, self.me)
        except Refused as refused:
            self._back_out(place)
            place.reserved = refused.left if isinstance(refused, Reserved) else None
            return None
        except BaseException:
            self._back_out(place)
            raise
        if raw is None:
            place.reserved = None
            return None
        place.raw = raw
        if place.ticket is not None and place.mode != EXCLUSIVE:
            self._let_others_in(place, place.ticket)
        return _new_tuple(Granted, (raw, None, None, None))  # half the price of Granted(raw)

    def _ask_again(self, place: Place) -> Answer:
        """Refused: take a ticket, then hang the bell, then settle down to wait."""
        if place.ticket is None:
            if place.file.dead() or cleaning.in_progress(place.file.fd):
                os.sched_yield()
                raise Orphaned  # what was in the way is not a holder
            self._take_ticket(place)
            if place.bell is None:
                return Busy(place.reserved or _NET)
        if self._hang_bell(place):
            granted = self._enter(place)
            if granted is not None:
                return granted
        if not waiting.settle(place, self.me):
            granted = self._enter(place)
            if granted is not None:
                return granted
        if self._used:
            close_all(self._used)
        return Busy(min(place.net, place.reserved or place.net))

    def _back_out(self, place: Place) -> None:
        place.slot = None
        kernel.drop(place.file.fd, 0, END if place.ticket is None else place.ticket)
        self.ring_first(place.file, sure=False)

    def _hang_bell(self, place: Place) -> bool:
        """True if it hangs only now: a ring may have missed it, so ask again."""
        ticket = place.ticket
        if place.bell is None or ticket is None or place.hung == ticket:
            return False
        place.bell.hang(address(place.file.bell, ticket))
        place.hung = ticket
        return True

    def _let_others_in(self, place: Place, ticket: int) -> None:
        """As many are woken as can enter: each one who enters beside others rings the next."""
        if place.mode == SHARED:
            following = line.after(place.file.fd, ticket)
            if following is not None and following.kind == READ:
                self.ringer.ring(address(place.file.bell, following.start))
        else:
            self.ring_first(place.file, sure=True)

    def _open_again(self, place: Place) -> None:
        """Move to the file that counts; first our place, then the next one behind us: in order."""
        old = place.file
        with suppress(Crowded):
            burying.finish(old)
        place.file = self.files.open(place.claim.key, place.claim.mode)
        place.former, place.ticket, place.request = place.ticket or place.former, None, BARGE
        if place.former is not None:
            with suppress(Crowded):
                self._take_ticket(place)
        kernel.drop_all(old.fd)
        self.ring_first(old, sure=True)
        descriptors.close(old.fd)

    def _take_ticket(self, place: Place) -> None:
        kind = READ if place.mode == SHARED else WRITE
        tell = waiting.Teller(place, self.me)
        place.ticket = ticket = line.join(place.file.fd, kind, place.former, tell)
        place.request = kernel.asked(WRITE, LOCK, ticket - LOCK)

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

    def _ring_head(self, file: LockFile, waiter: int) -> None:
        # Whom the kernel names first came first, nearly always: ring at once, then make sure.
        if waiter > QUEUE:
            self.ringer.ring(address(file.bell, waiter))
        head = line.before(file.fd, waiter)
        if head is not None:
            self.ringer.ring(address(file.bell, head.start))


def _close(files: Files, ringer: Ringer, used: list[Bell]) -> None:
    files.close_idle()
    ringer.close()
    close_all(used)
