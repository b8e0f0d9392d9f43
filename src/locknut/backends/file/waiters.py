"""The waiters of this process: their tickets and bells, whom they wake, and who waits outside.

1. *Rings.* A failed attempt drops what it had locked. A claim that drops anything rings the
   waiters that it may have kept out, so nobody owes a ring that it has forgotten.
2. *The waiting room.* A ticket in the kernel's line costs a descriptor, and a bell costs another.
   So only a few waiters per process and name stand in the line. The others wait in the waiting room
   without any descriptor and are called in, first come first served, as tickets become free. Each
   of them keeps the moment when it came and takes the ticket of that moment, so it stands before
   everybody who came later.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from locknut.backends.file import line, ofd_locks
from locknut.backends.file.bells import Ringer, address
from locknut.backends.file.claim_state import ELSEWHERE, INSIDE, OUTSIDE, ClaimState
from locknut.backends.file.file_layout import EXCLUSIVE, LOCK, PERMIT, QUEUE, SHARED
from locknut.backends.file.lock_files import OUTSIDE_FILE, Files, LockFile
from locknut.backends.file.ofd_locks import END, READ, WRITE
from locknut.backends.file.outcomes import Crowded
from locknut.backends.file.this_process import own_identity
from locknut.core.values import Answer, Busy
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from locknut.backends.file.lock_files import FileId

NET: Final = 0.05
IN_LINE: Final = 8
"""How many waiters of one process and name stand in the kernel's line."""
_OUTSIDE: Final = 10.0
"""Seconds until a claim in the waiting room asks by itself; nearly always it is called before."""


class Waiters:
    """How the claims of one directory in this process wait, and let others in."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.ringer = Ringer()
        self.waiting_room = WaitingRoom()
        self.me = own_identity()

    def ring_first(self, file: LockFile, *, sure: bool) -> None:
        """Wake the first in line; without `sure` only if it could enter now."""
        head = line.first(file.fd)
        if head is not None and (sure or line.may_enter(file.fd, head)):
            self.ringer.ring(address(file.bell, head.start))

    def _ring_head(self, file: LockFile, waiter: int) -> None:
        # The waiter that the kernel names is nearly always the first: ring it at once, then make
        # sure.
        if waiter > QUEUE:
            self.ringer.ring(address(file.bell, waiter))
        head = line.before(file.fd, waiter)
        if head is not None:
            self.ringer.ring(address(file.bell, head.start))

    def _step_back(self, state: ClaimState) -> None:
        """Drop what was locked, because the file says no, and wake the waiter that this kept out.

        A reader or a co-owner keeps no reader out, and a permit keeps nobody out. Two claims that
        refuse each other could ring each other for ever, so a claim rings at most once per NET.
        """
        self._drop(state)
        if state.mode == PERMIT:
            return
        head = line.first(state.file.fd)
        if head is None or not line.may_enter(state.file.fd, head):
            return
        now = time.monotonic()
        if now - state.rang < NET or (head.kind == READ and state.mode != EXCLUSIVE):
            return
        state.rang = now
        self.ringer.ring(address(state.file.bell, head.start))

    def _let_others_in(self, state: ClaimState, ticket: int) -> None:
        """Ring the next waiter: everybody who enters beside others does, so all that can enter
        wake.
        """
        if state.mode == SHARED:
            following = line.after(state.file.fd, ticket)
            if following is not None and following.kind == READ:
                self.ringer.ring(address(state.file.bell, following.start))
        else:
            self.ring_first(state.file, sure=True)

    def _drop(self, state: ClaimState) -> None:
        state.slot = None
        ofd_locks.drop(state.file.fd, 0, END if state.ticket is None else state.ticket)

    def _hang_bell(self, state: ClaimState) -> bool:
        """Return True if the bell hangs only now: a ring may have missed it, so the claim asks
        again.
        """
        ticket = state.ticket
        bell = state.bell
        if bell is None or ticket is None or state.hung == ticket:
            return False
        bell.hang(address(state.file.bell, ticket))
        state.hung = ticket
        return True

    def _take_ticket(self, state: ClaimState) -> None:
        kind = READ if state.mode == SHARED else WRITE
        write_name = line.NameWriter(state, self.me)
        state.ticket = ticket = line.join(state.file.fd, kind, state.former, write_name)
        state.request = ofd_locks.asked(WRITE, LOCK, ticket - LOCK)

    def _send_out(self, state: ClaimState) -> Answer:
        """Enough of our waiters stand in line: this one goes to the waiting room and keeps its
        moment.
        """
        state.former = line.now_ticket()
        file, state.file = state.file, OUTSIDE_FILE
        self.files.give_back(file)
        return self._stay_out()

    def _stay_out(self) -> Answer:
        return Busy(_OUTSIDE)

    def _come_in(self, state: ClaimState) -> None:
        claim = state.claim
        state.file = self.files.take(claim.key, claim.mode) or self.files.open(
            claim.key, claim.mode
        )
        self._take_ticket(state)

    def _leave_line(self, state: ClaimState) -> None:
        """Call in the next claim from the waiting room. It gets its ticket here and now, so nobody
        who came later gets in front of it, and is then woken to hang its bell. If that fails, it
        asks by itself after a while.
        """
        self.waiting_room.leave(state)
        while (following := self.waiting_room.call(state.file_id)) is not None:
            with following.mutex:
                if following.file is not OUTSIDE_FILE:
                    continue
                with suppress(OSError, LocknutError, Crowded):
                    self._come_in(following)
                bell = following.bell
            if bell is not None:
                bell.notify()


class _Room:
    __slots__ = ("inside", "waiting")

    def __init__(self) -> None:
        self.inside = 0
        self.waiting: dict[str, ClaimState] = {}


class WaitingRoom:
    """The waiting claims of one directory, by name. Its mutex is taken inside that of a claim."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._rooms: dict[FileId, _Room] = {}

    def go_in(self, state: ClaimState) -> bool:
        """Return whether this claim may stand in line; if not, it waits here until it is called."""
        with self._mutex:
            if state.counted == INSIDE:
                return True
            room = self._rooms.setdefault(state.file_id, _Room())
            first = next(iter(room.waiting), None)
            if room.inside < IN_LINE and first in (None, state.claim.id):
                room.waiting.pop(state.claim.id, None)
                self._count_in(room, state)
                return True
            room.waiting[state.claim.id] = state
            state.counted = OUTSIDE
            return False

    def leave(self, state: ClaimState) -> None:
        """Forget this claim: it holds the lock now, or gave up."""
        with self._mutex:
            room = self._rooms.get(state.file_id)
            if room is None or state.counted == ELSEWHERE:
                return
            if state.counted == INSIDE:
                room.inside -= 1
            room.waiting.pop(state.claim.id, None)
            state.counted = ELSEWHERE
            if not room.inside and not room.waiting:
                del self._rooms[state.file_id]

    def call(self, file_id: FileId) -> ClaimState | None:
        """Return the next claim that may stand in line now, if there is room."""
        with self._mutex:
            room = self._rooms.get(file_id)
            if room is None or room.inside >= IN_LINE or not room.waiting:
                return None
            state = room.waiting.pop(next(iter(room.waiting)))
            self._count_in(room, state)
            return state

    def _count_in(self, room: _Room, state: ClaimState) -> None:
        room.inside += 1
        state.counted = INSIDE
