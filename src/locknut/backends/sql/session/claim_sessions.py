"""The claims of one engine that have a session of the database, from their wait to their release.

The caller of a lock and the keeper have backends of their own, so both look here: the session that
one has taken, the other may have to give back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from locknut.backends.sql.session.arrivals import Arrivals
from locknut.backends.sql.session.session_port import LockSession, LockSessions
from locknut.core.ports import Signal
from locknut.core.values import Claim
from locknut.runtimes.threads import Guard


class ClaimSession:
    """One claim and its session."""

    def __init__(self, claim: Claim, session: LockSession, home: LockSessions):
        self.claim = claim
        self.session = session
        self.home = home
        """Whose session it is: another colour cannot use it."""
        self.at_gate = False
        """Whether it has the gate."""
        self.wait: bytes | None = None
        """The lock that the session waits for."""
        self.wait_ends = 0.0
        """When that has an end at the latest, if the server lives."""
        self.look_at = 0.0
        """When it looks at the row again, though nothing has arrived."""
        self.holds = False
        self.busy = True
        """Whether somebody is using the session now."""
        self.gone = False
        """Whether the claim was given up meanwhile: whoever uses the session drops it."""
        self.unowned = False
        """Whether nobody had the lock when it was looked at last, though this waits for it."""


class ClaimSessions:
    """All of one engine's; for any thread."""

    def __init__(self) -> None:
        self.guard = Guard()
        self._arrivals = Arrivals()
        self._by_id: dict[str, ClaimSession] = {}
        self._signals: dict[str, Signal] = {}
        """Of callers that sleep, by claim id: a claim may get another session meanwhile."""

    @contextmanager
    def watch(self, claim: Claim, signal: Signal) -> Iterator[Signal]:
        """Inside, the signal rings when something has arrived for the claim."""
        self._signals[claim.id] = signal
        try:
            yield signal
        finally:
            self._signals.pop(claim.id, None)

    def _ring(self, claim_id: str) -> Callable[[], None]:
        def ring() -> None:
            signal = self._signals.get(claim_id)
            if signal is not None:
                signal.notify()

        return ring

    def add(self, claim: Claim, session: LockSession, home: LockSessions) -> ClaimSession:
        """For whoever asks for it; from now on it is busy."""
        made = ClaimSession(claim, session, home)
        try:
            with self.guard:
                self._by_id[claim.id] = made
        except BaseException:
            self.forget(made)
            raise
        return made

    def get(self, claim_id: str) -> ClaimSession | None:
        return self._by_id.get(claim_id)

    def use(self, claim_id: str) -> ClaimSession | None:
        """Have it to oneself, until `done` or `drop`; None if there is none, or somebody has it."""
        mine = False
        found: ClaimSession | None = None
        try:
            with self.guard:
                found = self._by_id.get(claim_id)
                if found is None or found.busy:
                    return None
                found.busy = mine = True
            if found.wait is not None:
                self._arrivals.forget(found.session.fileno())
        except BaseException:
            if found is not None and mine:  # nobody else would end its use
                self.drop(found)
            raise
        return found

    def done(self, used: ClaimSession) -> None:
        """It goes on to wait, or to hold."""
        with self.guard:
            gone = used.gone
            used.busy = False
        if gone:
            used.session.drop()
        elif used.wait is not None:
            self._arrivals.expect(used.session.fileno(), self._ring(used.claim.id))

    def forget(self, used: ClaimSession) -> None:
        """The claim has no session any more; what becomes of that is the caller's business."""
        with self.guard:
            if self._by_id.get(used.claim.id) is used:
                del self._by_id[used.claim.id]

    def drop(self, used: ClaimSession) -> None:
        """The claim's session ends, and its locks are free."""
        self.forget(used)
        used.session.drop()

    def give_up(self, claim_id: str) -> None:
        """The same, from elsewhere, though it may be in use."""
        with self.guard:
            found = self._by_id.pop(claim_id, None)
            busy = found is not None and found.busy
            if found is not None:
                found.gone, found.busy = busy, True
        if found is None:
            return
        if busy:
            found.session.cut()
            return
        if found.wait is not None:
            self._arrivals.forget(found.session.fileno())
        found.session.drop()

    def has_number(self, claim_id: str, number: int) -> bool | None:
        """Whether the claim's session is the one of this number; None if it has none here. If the
        server has hung up it is not: one that starts anew may count its sessions anew.
        """
        with self.guard:
            found = self._by_id.get(claim_id)
            if found is None:
                return None
            return found.session.number == number and (found.busy or found.session.alive())

    def hung_up(self) -> bool:
        """Whether the server has ended the session of some hold."""
        with self.guard:
            holds = [each for each in self._by_id.values() if each.holds and not each.busy]
            return any(not each.session.alive() for each in holds)

    def close(self) -> None:
        """Nobody will wait any more."""
        self._arrivals.close()
