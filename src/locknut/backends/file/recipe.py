"""What each command does to the lock file; nothing here waits, so both colours share it.

Kernel locks on bytes of the file decide who holds; `file_layout` says which byte means what. An
attempt ends in one of these ways:

1. *Granted*: `_enter` has locked what its mode needs, and written the number and who holds.
   A first attempt may barge in, before those who wait, unless it is fair.
2. *Refused, and it does not wait* (`timeout=0`): nothing of it is left (`_turn_away`).
3. *Refused, and it waits*: it takes a ticket, hangs its bell, and tries once more, because the
   lock may have been freed in between. From then on it goes in order (`waiters`).
4. *Refused, with enough waiters of this process in line*: it is sent out, where it needs no
   descriptor, and is called in when there is room (`WaitingRoom`).
5. *Orphaned*: the file was broken, removed or moved while we asked. We ask in the file that counts.
6. *Crowded*: another process was stopped in the middle of a change. We look again soon.

An attempt that fails drops whatever it has locked, and rings the waiters that it may have kept out.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final
from weakref import finalize

from locknut.backends.file import (
    burial,
    cleanup,
    grants,
    holder_slots,
    line,
    ofd_locks,
    this_process,
)
from locknut.backends.file.barred_claims import BarredClaims
from locknut.backends.file.bells import Bell, Ringer, close_all
from locknut.backends.file.claim_state import BARGE, ClaimState
from locknut.backends.file.file_layout import EXCLUSIVE, PERMIT
from locknut.backends.file.holds import was_broken
from locknut.backends.file.lock_files import (
    NO_FILE,
    OUTSIDE_FILE,
    Files,
    LockFile,
)
from locknut.backends.file.ofd_locks import drop_all_and_look
from locknut.backends.file.outcomes import Crowded, Orphaned, Refused, Reserved
from locknut.backends.file.this_process import own_identity
from locknut.backends.file.waiters import NET, Waiters, WaitingRoom
from locknut.core.values import Answer, Busy, Claim, Granted

_REOPENS: Final = 20
"""How many files may be orphaned under us in one attempt before we come back later."""
_SOON: Final = 0.002
_MOST_USED: Final = 4
_new_tuple = tuple.__new__


class Recipe(Waiters):
    """The claims of one directory in this process, whatever colour they come from."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._used: list[Bell] = []
        """Bells of waiters that were woken. They are closed when there is time, not on the way
        out."""
        self.states: dict[str, ClaimState] = {}
        self._barred = BarredClaims()
        this_process.remember(self)
        finalize(self, _close, files, self.ringer, self._used).atexit = False

    def attempt(self, claim: Claim) -> Answer:
        state = self.states.get(claim.id)
        if state is None:
            if self._barred and claim.id in self._barred:
                return Busy(NET)
            # Nobody else knows this claim until its first attempt is answered, so it needs no
            # mutex.
            state = self._new_state(claim)
            answer = self._ask(state)
        else:
            with state.mutex:
                answer = self._repeat_attempt(state)
        if state.counted and state.raw is not None:  # a claim in the waiting room may come in
            self._leave_line(state)
        return answer

    def _repeat_attempt(self, state: ClaimState) -> Answer:
        if state.raw is not None:
            return Granted(state.raw)
        if state.file is NO_FILE:
            return Busy(NET)  # another thread released the claim meanwhile
        if state.file is OUTSIDE_FILE and not self.waiting_room.go_in(state):
            return self._stay_out()
        return self._ask(state)

    def _ask(self, state: ClaimState) -> Answer:
        try:
            if state.file is OUTSIDE_FILE:
                self._come_in(state)
            if state.ticket is not None and state.bell is not None and state.hung != state.ticket:
                return self._after_refusal(state)  # hang the bell first: that asks again anyway
            return self._enter(state) or self._after_refusal(state)
        except Orphaned:
            return self._move_house(state)
        except Crowded:
            return _soon(state)

    def _move_house(self, state: ClaimState) -> Answer:
        """Ask again in the file that counts now."""
        for _ in range(_REOPENS):
            with suppress(Orphaned):
                self.open_again(state)
                try:
                    return self._enter(state) or self._after_refusal(state)
                except Crowded:
                    break
        return _soon(state)

    def state_of(self, claim: Claim) -> ClaimState:
        """Return what we know of this claim; its first attempt or watch creates it."""
        return self.states.get(claim.id) or self._new_state(claim)

    def _new_state(self, claim: Claim) -> ClaimState:
        file, opened = self.files.take(claim.key, claim.mode), False
        if file is None:
            file, opened = self.files.open(claim.key, claim.mode), True
        state = self.states[claim.id] = ClaimState(claim, file)
        if opened and self.files.created >= self.files.folder.pause:
            cleanup.clean_some(self.files, self.me)
        return state

    def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        if outcome_unknown:
            self._barred.bar(claim.id)
        state = self.states.get(claim.id)
        if state is None:
            return False
        with state.mutex:
            held = self._release(state)
        if state.counted:
            self._leave_line(state)
        return held

    def withdraw(self, claim: Claim) -> None:
        """Release a claim whose waiter never comes back, unless it holds the lock by now."""
        state = self.states.get(claim.id)
        if state is not None and state.raw is None:
            self.release(claim)

    def _release(self, state: ClaimState) -> bool:
        file = state.file
        if file is NO_FILE:
            return False  # another thread released the claim meanwhile
        held = False
        if file is not OUTSIDE_FILE:
            if state.mode == EXCLUSIVE:
                held = self._drop_exclusive(file, state.raw)
            else:
                held = state.raw is not None and not was_broken(state)
                self.drop_and_ring(state)
        self.put_away(state)
        return held

    def put_away(self, state: ClaimState) -> None:
        """The claim is over: keep its descriptor for the next claim. The caller has the mutex of
        the claim and has dropped its locks.

        The state is forgotten only now, so a release that was interrupted before can be repeated.
        """
        file, state.file = state.file, NO_FILE
        if file is not OUTSIDE_FILE:
            self.files.give_back(file)
        self.states.pop(state.claim.id, None)
        if state.used is not None:
            self._used.append(state.used)
            if len(self._used) > _MOST_USED:
                close_all(self._used)

    def forget(self) -> None:
        """Begin anew in a forked child: nothing of this is ours, and our copies of the descriptors
        are closed already (S17).
        """
        self.files.forget()
        self.ringer.forget()
        self._used.clear()
        self.waiting_room = WaitingRoom()
        self.states = {}
        self.me = own_identity()

    def spare(self) -> bool:
        """Close the lock files that are open only to be quick."""
        return self.files.close_idle()

    def close(self) -> None:
        _close(self.files, self.ringer, self._used)

    # -- one attempt

    def _enter(self, state: ClaimState) -> Granted | None:
        """Try to take the key now; return None if that is refused."""
        try:
            raw = grants.BY_MODE[state.mode](state, self.me)
        except Refused as refused:
            self._step_back(state)
            state.reserved = refused.left if isinstance(refused, Reserved) else None
            return None
        except BaseException:
            self._drop(state)
            self.ring_first(state.file, sure=False)
            raise
        if raw is None:
            state.reserved = None
            return None
        state.raw = raw  # from here on a release has something to give back
        if state.ticket is not None and state.mode != EXCLUSIVE:
            self._let_others_in(state, state.ticket)
        return _new_tuple(Granted, (raw, None, None, None))  # half the price of Granted(raw)

    def _after_refusal(self, state: ClaimState) -> Answer:
        """The claim was refused: take a ticket, hang the bell, ask once more, and get ready to
        sleep.
        """
        if state.ticket is None:
            if state.file.dead() or cleanup.in_progress(state.file.fd):
                os.sched_yield()
                raise Orphaned  # what was in the way was not a holder
            away = self._line_up(state)
            if away is not None:
                return away
            if state.bell is None:  # the core watches from the second question on
                return Busy(state.reserved or NET)
        if self._hang_bell(state):  # a holder that left before the bell hung rang nobody: try again
            granted = self._enter(state)
            if granted is not None:
                return granted
        if not line.settle(state, self.me):  # a holder died meanwhile and rang nobody
            granted = self._enter(state)
            if granted is not None:
                return granted
        if self._used:
            close_all(self._used)
        state.soon = 0.0
        return Busy(min(state.net, state.reserved or state.net))

    def _line_up(self, state: ClaimState) -> Answer | None:
        """Take a ticket. Return an answer instead if this claim does not stand in line, or not
        yet.
        """
        if not state.claim.waits:
            return self._turn_away(state)
        if not self.waiting_room.go_in(state):
            return self._send_out(state)
        self._take_ticket(state)
        return None

    def _turn_away(self, state: ClaimState) -> Answer:
        """A non-blocking attempt leaves nothing behind: its ticket would keep others out."""
        if state.watched:
            return Busy(NET)
        self.put_away(state)
        return Busy(NET, queued=False)

    def open_again(self, state: ClaimState) -> None:
        """Move to the file that counts. We take our old ticket there before we ring the next
        waiter, so the order of the line is kept.
        """
        old = state.file
        with suppress(Crowded), holder_slots.SlotsMutex(old.fd):
            burial.finish(old)
        state.file = self.files.open(state.claim.key, state.claim.mode)
        try:
            state.former, state.ticket, state.request = state.ticket or state.former, None, BARGE
            if state.former is not None:
                with suppress(Crowded):
                    self._take_ticket(state)
        finally:  # nobody else knows it any more
            ofd_locks.drop_all(old.fd)  # before the close: a forked child may have a copy (S17)
            self.ring_first(old, sure=True)
            this_process.close_fd(old.fd)

    # -- holds

    def drop_and_ring(self, state: ClaimState) -> None:
        """Drop every lock, whatever we believe to hold: an interrupt may have come in between."""
        file = state.file
        ofd_locks.drop_all(file.fd)
        self.ring_first(file, sure=state.raw is not None and state.mode in (EXCLUSIVE, PERMIT))

    def _drop_exclusive(self, file: LockFile, raw: int | None) -> bool:
        """`drop_and_ring` for an exclusive claim; return whether it held, and was not broken. That
        is asked first: while we have the lock, a break that we see is not called off any more.
        """
        fd = file.fd
        try:
            held = raw is not None and not file.ended(raw)
        finally:
            waiter = drop_all_and_look(fd, line.ANYBODY)
            if waiter is not None:
                self._ring_head(file, waiter)
        return held


def _soon(state: ClaimState) -> Busy:
    """Another process was stopped in the middle of a change: each time we wait twice as long."""
    state.soon = min(max(_SOON, state.soon * 2), NET)
    return Busy(state.soon)


def _close(files: Files, ringer: Ringer, used: list[Bell]) -> None:
    files.close_idle()
    files.folder.close()
    ringer.close()
    close_all(used)
