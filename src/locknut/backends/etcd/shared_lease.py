"""One lease of the cluster, shared by the backends of an engine, and the claims that stand with it.

Every key of ours belongs to this lease, so nothing of a process that died is left. This file does
no I/O: `leased_link` does, in the colour of each backend. Watches call in here from any thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from locknut.backends.etcd.claim_key import ClaimState
from locknut.backends.etcd.lease_proof import LeaseProof
from locknut.backends.etcd.settings import Settings
from locknut.backends.etcd.spare_keys import MOST, SpareKeys
from locknut.core.values import Claim, Notice, Renewal
from locknut.drivers.etcd.requests import Lease


class Session(NamedTuple):
    """A lease of ours, and the key that is there as long as the lease is."""

    lease: int
    key: bytes
    stamp: int
    """The revision that the key was put by: what puts something for a claim compares it."""


NONE: Final = Session(0, b"", 0)


class Aside(NamedTuple):
    """A lease that nobody keeps alive, for what goes away by itself."""

    id: int
    until: float
    """What is put with it before then stays long enough."""


class SharedLease:
    """The lease, and everything that is true only as long as it lives."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.states: dict[str, ClaimState] = {}
        self.session = NONE
        """In one piece, because several threads look at it and replace it."""
        self.proof = LeaseProof(float("-inf"), settings.session_ttl)
        self.aside: Aside | None = None
        self.spare = SpareKeys()
        self.quiet: set[bytes] = set()
        """Lines in which nobody was the last time when a claim came."""
        self.closed = False
        self._mutex = threading.RLock()  # a destructor may leave at any moment
        self._users = 0
        self._opening = False
        self._gate: list[Callable[[], None]] = []
        self._listeners: list[Callable[[str | None, Notice], None]] = []
        self.end_watch: Callable[[], None] | None = None
        """Ends the watch on the key of the session."""
        self.unwatched = False
        """Whether that watch was refused, and has to be made again."""

    @property
    def id(self) -> int:
        """The cluster's number of the lease; 0 while there is none."""
        return self.session.lease

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Call this for every notice."""
        self._listeners.append(on_notice)

    def notify(self, claim_id: str | None, what: Notice) -> None:
        for on_notice in list(self._listeners):
            on_notice(claim_id, what)

    def state_of(self, claim: Claim) -> ClaimState:
        """Return what is known of a claim. If there is a lease, its key is to belong to it."""
        known = self.states.get(claim.id)
        if known is None:
            known = self.states[claim.id] = ClaimState(claim, self.settings.root)
        with self._mutex:
            if self.session.lease not in (0, known.lease):
                known.begin(*self.session, self.spare.take(known.prefix))
        return known

    def over(self, state: ClaimState, *, key_gone: bool) -> None:
        """Forget the claim. If its key is gone for sure, or never was there, then, because an
        interrupt may come in between, let another one have the name: all that was sent with it was
        answered, so nothing that comes late is about a key of this name (L16).
        """
        self.states.pop(state.claim.id, None)
        if state.in_doubt or not key_gone:
            return
        with self._mutex:
            if self.lives(state):
                self.spare.keep(state.prefix, state.key)

    def was_quiet(self, prefix: bytes, *, quiet: bool) -> None:
        """Note whether somebody stood in this line."""
        if not quiet:
            self.quiet.discard(prefix)
        elif len(self.quiet) < MOST:
            self.quiet.add(prefix)
        else:
            self.quiet.clear()  # rarely, and it only costs a longer question each

    def holds(self, claim: Claim) -> ClaimState | None:
        """What is known of a claim that was granted and has not ended, as far as we know."""
        state = self.states.get(claim.id)
        return state if state is not None and state.granted and self.lives(state) else None

    def lives(self, state: ClaimState) -> bool:
        """Whether its lease is there, as far as we know."""
        return state.lease == self.session.lease != 0

    # What answers prove.

    def until(self) -> float:
        return self.proof.until()

    def vouches(self, state: ClaimState) -> float:
        """Until when the key of this claim is sure to stand, if it stands now; 0: it does not."""
        with self._mutex:  # or else a new lease might vouch for a key of the old one
            return self.proof.until() if self.lives(state) else 0.0

    def asks(self, now: float) -> bool:
        with self._mutex:
            return self.proof.asks(now)

    def hurry(self) -> None:
        with self._mutex:
            self.proof.hurry()

    def kept(self, lease: Lease, sent: float, at: float) -> None:
        with self._mutex:
            if lease.id == self.id:
                self.proof.kept(sent, at, self._counted(lease), lease.term)

    def committed(self, sent: float, term: int) -> None:
        if self.proof.unproven:  # one that is noted only now has to wait for the next
            with self._mutex:
                self.proof.committed(sent, term)

    # Its life.

    def begins_to_open(self, call: Callable[[], None]) -> bool:
        """Whether the caller is the one to ask for a lease; or else it is called when that is
        done, in vain or not.
        """
        with self._mutex:
            if self._opening:
                self._gate.append(call)
                return False
            self._opening = True
            return True

    def opened(self, lease: Lease, sent: float, key: bytes, stamp: int) -> bool:
        """From now on this is the lease; False if nobody wants one any more."""
        with self._mutex:
            if self.closed:
                return False
            self.proof = LeaseProof(sent, self._counted(lease))
            self.spare = SpareKeys()
            self.session = Session(lease.id, key, stamp)
            return True

    def stamped(self, lease: int, stamp: int) -> None:
        """The key of the session was put again, by this revision: what was sent before is void.
        Also from answers that only show it: another thread put it, or the answer to that was lost.
        """
        with self._mutex:
            if lease == self.id and stamp > self.session.stamp:
                self.session = self.session._replace(stamp=stamp)
                for state in list(self.states.values()):
                    if state.lease == lease:
                        state.stamp = stamp

    def _counted(self, lease: Lease) -> float:
        """The time that is counted on: what was granted, if it is less than was asked for. A member
        may grant more because of its own settings, and the next leader may not know of that.
        """
        return min(lease.ttl, math.ceil(self.settings.session_ttl))

    def ends_to_open(self) -> None:
        with self._mutex:
            self._opening = False
            waiting, self._gate = self._gate, []
        for call in waiting:
            call()

    def run_out(self, now: float) -> bool:
        """Whether the lease is over by our own clock and no claim stands, or may stand, with it:
        then a new one is as good.
        """
        return now >= self.proof.until() and not any(map(self.lives, list(self.states.values())))

    def lost(self, lease: int) -> None:
        """The cluster says, by a majority, that this lease is gone. From any thread."""
        with self._mutex:
            if lease != self.id or not lease:
                return
            self.session = NONE
            end_watch, self.end_watch = self.end_watch, None
        if end_watch is not None:
            end_watch()
        self.notify(None, Renewal.LOST)
        for state in list(self.states.values()):
            state.ring()

    def join(self) -> None:
        """One more backend uses it."""
        with self._mutex:
            self._users += 1

    def leave(self, *, for_all: bool = False) -> bool:
        """True for the last backend, or the one whose end is the end of its Locks: it ends the
        lease, and with it whatever another backend would still have to give back.
        """
        with self._mutex:
            self._users -= 1
            if self.closed or (self._users > 0 and not for_all):
                return False
            self.closed = True
            self._listeners.clear()
            return True

    def forked(self) -> None:
        """Let go in a forked child: the lease is the parent's, so nothing is sent."""
        self._mutex = threading.RLock()
        self.closed = True
        self.session = NONE
        self.aside = self.end_watch = None
        self.spare = SpareKeys()
        self.states.clear()
        self._gate.clear()
        self._listeners.clear()
