"""A refused claim's way through the line: its ticket, its bell, and the rings it owes to others.

What was locked on the way is dropped if the attempt fails, and whoever drops anything rings those
whom it may have kept out: no wake-up is ever owed by somebody who has forgotten it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from locknut.backends.file import kernel, line, waiting
from locknut.backends.file.anteroom import Anteroom
from locknut.backends.file.bells import Ringer, address
from locknut.backends.file.files import OUTSIDE_FILE, Files, LockFile
from locknut.backends.file.identity import this_process
from locknut.backends.file.kernel import END, READ, WRITE
from locknut.backends.file.layout import EXCLUSIVE, LOCK, PERMIT, QUEUE, SHARED
from locknut.backends.file.outcomes import Crowded
from locknut.backends.file.places import Place
from locknut.core.values import Answer, Busy
from locknut.errors import LocknutError

NET: Final = 0.05
_OUTSIDE: Final = 10.0
"""Seconds to the next look of one who waits to be called; it is nearly always called before."""


class Lining:
    """What the claims of one directory in this process do to wait, and to let others in."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.ringer = Ringer()
        self.anteroom = Anteroom()
        self.me = this_process()

    def ring_first(self, file: LockFile, *, sure: bool) -> None:
        """Wake the head of the line; unless `sure`, only if it could enter now."""
        head = line.first(file.fd)
        if head is not None and (sure or line.may_enter(file.fd, head)):
            self.ringer.ring(address(file.bell, head.start))

    def _ring_head(self, file: LockFile, waiter: int) -> None:
        # Whom the kernel names first came first, nearly always: ring at once, then make sure.
        if waiter > QUEUE:
            self.ringer.ring(address(file.bell, waiter))
        head = line.before(file.fd, waiter)
        if head is not None:
            self.ringer.ring(address(file.bell, head.start))

    def _step_back(self, place: Place) -> None:
        """Refused by what the file says, after something was locked: wake whom that kept out.

        A reader or a co-owner that steps back was in no reader's way, and a permit in nobody's. Two
        who refuse each other could go on ringing for ever: not more often than the net, then.
        """
        self._drop(place)
        if place.mode == PERMIT:
            return
        head = line.first(place.file.fd)
        if head is None or not line.may_enter(place.file.fd, head):
            return
        now = time.monotonic()
        if now - place.rang < NET or (head.kind == READ and place.mode != EXCLUSIVE):
            return
        place.rang = now
        self.ringer.ring(address(place.file.bell, head.start))

    def _let_others_in(self, place: Place, ticket: int) -> None:
        """As many are woken as can enter: each one who enters beside others rings the next."""
        if place.mode == SHARED:
            following = line.after(place.file.fd, ticket)
            if following is not None and following.kind == READ:
                self.ringer.ring(address(place.file.bell, following.start))
        else:
            self.ring_first(place.file, sure=True)

    def _drop(self, place: Place) -> None:
        place.slot = None
        kernel.drop(place.file.fd, 0, END if place.ticket is None else place.ticket)

    def _hang_bell(self, place: Place) -> bool:
        """True if it hangs only now: a ring may have missed it, so ask again."""
        ticket = place.ticket
        bell = place.bell
        if bell is None or ticket is None or place.hung == ticket:
            return False
        bell.hang(address(place.file.bell, ticket))
        place.hung = ticket
        return True

    def _take_ticket(self, place: Place) -> None:
        kind = READ if place.mode == SHARED else WRITE
        tell = waiting.Teller(place, self.me)
        place.ticket = ticket = line.join(place.file.fd, kind, place.former, tell)
        place.request = kernel.asked(WRITE, LOCK, ticket - LOCK)

    def _send_out(self, place: Place) -> Answer:
        """There are enough of us in the line: the moment we came is our place there."""
        place.former = line.now_ticket()
        file, place.file = place.file, OUTSIDE_FILE
        self.files.give_back(file)
        return self._stay_out()

    def _stay_out(self) -> Answer:
        return Busy(_OUTSIDE)

    def _come_in(self, place: Place) -> None:
        claim = place.claim
        place.file = self.files.take(claim.key, claim.mode) or self.files.open(
            claim.key, claim.mode
        )
        self._take_ticket(place)

    def _leave_line(self, place: Place) -> None:
        """The next of us takes its ticket here and now, lest somebody else of a later moment comes
        first; then it is woken, to hang its bell. If that fails it comes by itself, by its net.
        """
        self.anteroom.leave(place)
        while (following := self.anteroom.call(place.which)) is not None:
            with following.mutex:
                if following.file is not OUTSIDE_FILE:
                    continue
                with suppress(OSError, LocknutError, Crowded):
                    self._come_in(following)
                bell = following.bell
            if bell is not None:
                bell.notify()
