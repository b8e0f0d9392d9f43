"""One remote hold as this process knows it, and the lease that one caller has on it.

A Hold lives from the engine's grant to its end. Handing over inside the process gives the same Hold
to another caller under the next number: the new Lease has a larger fence, the former one is over.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from locknut.core import callers, losing, pacing, validation
from locknut.core.callers import Caller, nobody
from locknut.core.runtime_port import NEVER
from locknut.core.values import Claim, Granted, Mode, State
from locknut.errors import LeaseLost, NotHeld

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.lock_request import LockOptions
    from locknut.core.ports import Signal
    from locknut.core.queueing import Line


_SHARED = Mode.SHARED  # looking it up in the enum would cost as much as a call
NEW = object()
"""The place in the timetable of a hold that the keeper has not seen yet."""


class Hold:
    """What the engine granted: who has it now, until when, and when to look at it again."""

    __slots__ = (
        "anchor",
        "bucket",
        "claim",
        "due",
        "ending",
        "failures",
        "hold_until",
        "lease",
        "line",
        "number",
        "options",
        "outcome_unknown",
        "raw",
        "since",
        "ttl",
        "valid_until",
    )

    def __init__(
        self, claim: Claim, options: LockOptions, granted: Granted, sent: float, line: Line | None
    ):
        self.raw, ttl, anchor, until = granted
        self.claim = claim
        self.options = options
        self.line = line
        self.number = self.failures = 0
        self.ttl = ttl = claim.ttl if ttl is None else ttl
        self.anchor = anchor = sent if anchor is None else anchor
        self.since = sent
        self.valid_until = self.hold_until = self.due = NEVER
        self.bucket: object = NEW
        self.lease: Callable[[], LeaseCore | None] = nobody
        self.outcome_unknown = self.ending = False
        """Unknown: some sending of its attempt is unanswered and may be applied later (L3)."""
        if ttl is not None:
            self.valid_until = pacing.validity(anchor, ttl)
            self.due = anchor + ttl / pacing.RENEWALS_PER_TTL
        if until is not None:
            self.valid_until = min(self.valid_until, until)
            self.due = min(self.due, anchor + (self.valid_until - anchor) / pacing.RENEWALS_PER_TTL)
        max_hold = options.max_hold
        if max_hold is not None:
            self.hold_until = sent + max_hold
            self.due = min(self.due, self.hold_until)

    def confirmed(self, sent: float, until: float = NEVER) -> None:
        """The engine answered a renewal sent at `sent`: the full ttl counts from there, but never
        beyond what the engine vouches for.
        """
        self.failures = 0
        if sent < self.anchor:
            return  # an older answer, overtaken by a newer one
        self.anchor = sent
        self.ttl = self.claim.ttl if self.claim.ttl is not None else self.ttl
        self.valid_until = min(pacing.validity(sent, self.ttl), until)

    def who(self) -> str:
        """The thread or task that has it, for people."""
        lease = self.lease()
        return callers.read(self.claim.who).who if lease is None else lease._who()

    def ends_at(self) -> float:
        """When this hold is over for us, renewed or not."""
        return min(self.valid_until, self.hold_until)

    def at_risk(self, now: float) -> bool:
        """A renewal failed, or is so late that something must be wrong."""
        if self.failures > 0 or self.ttl is None or not self.options.auto_renew:
            return self.failures > 0
        return now > self.anchor + self.ttl * 2 / 3


class LeaseCore:
    """One caller's hold: what both faces of a Lease have in common."""

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_caller",
        "_client",
        "_count",
        "_ended",
        "_hold",
        "_inner",
        "_number",
        "_outer",
        "_reason",
        "_signals",
        "_since",
        "_slot",
    )

    def __init__(
        self,
        client: Client,
        hold: Hold,
        caller: Caller,
        slot: object,
    ):
        self._client = client
        self._hold = hold
        self._caller = caller.weakly
        self._slot = slot
        self._number = hold.number
        self._since = hold.since
        self._count = 1
        self._outer: LeaseCore | None
        self._inner: LeaseCore | None
        """A read taken inside this write: it lives on, downgraded, if the write ends first."""
        self._ended: State | None
        self._outer = self._inner = self._ended = None
        self._reason = ""
        self._callbacks: tuple[Callable[[Any], object], ...]
        self._signals: tuple[Signal, ...]
        self._callbacks = self._signals = ()

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._client.bare(self._hold.claim.key)

    @property
    def backend(self) -> str:
        """The engine's name."""
        return self._client.backend.name

    @property
    def fence(self) -> int:
        """The fencing number: greater for every later hold of the same name."""
        return self._hold.raw * self._client.fence_step + self._number

    @property
    def mode(self) -> Mode:
        """Exclusive, shared (a read lock) or permit (a semaphore)."""
        hold = self._hold
        # A read that outlived its write may have a hold that is exclusive in the engine.
        is_read = self._outer is not None or hold.options.mode is _SHARED
        return _SHARED if is_read else hold.claim.mode

    @property
    def state(self) -> State:
        """held, at_risk, lost, released or detached: decided by the clock when asked."""
        in_time = self._ended is None and losing.expire_if_due(self._client, self._hold)
        if self._ended is not None:
            return self._ended
        if not in_time:
            return State.LOST
        return State.AT_RISK if self._hold.at_risk(self._client.runtime.now()) else State.HELD

    @property
    def held(self) -> bool:
        """Whether the hold is still ours, by our own clock."""
        return (
            self._ended is None
            and losing.expire_if_due(self._client, self._hold)
            and self._ended is None
        )

    @property
    def reason(self) -> str:
        """Why the lease was lost; empty if it was not."""
        return self._reason

    @property
    def remaining(self) -> float:
        """How many seconds the hold is sure to last without a renewal; inf if it has no ttl."""
        if self._ended is not None:
            return 0.0
        return max(0.0, self._hold.ends_at() - self._client.runtime.now())

    def check(self) -> None:
        """Raise LeaseLost (or NotHeld after a release) unless the hold is still ours."""
        if not self.held:
            raise self._no_longer_held()

    def on_lost(self, callback: Callable[[Any], object]) -> None:
        """Call `callback(lease)` when the hold is lost (at once, if it already is)."""
        losing.on_lost(self._client, self, callback)

    __reduce__ = validation.refuse_copy  # the end of a copy would be taken for the end of the hold

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        state = (self._ended or State.HELD).value
        where = f"{self.name!r} on {self.backend}"
        return f"<{type(self).__name__} {where}: {state}, fence {self.fence}>"

    def __del__(self) -> None:
        # The thread or task and the user both let go without a release (L11).
        try:
            left = self._ended is None
        except AttributeError:
            return  # interrupted while it was made
        # A read inside a write that was interrupted then: the write still has the hold.
        if left and self._hold.lease() in (None, self):
            self._client.abandon(self._hold, self._number)

    def _leave_outer(self) -> None:
        """Under the guard: this read ends inside its write."""
        self._ended = State.RELEASED
        if self._outer is not None:
            self._outer._inner = None

    def _outlive(self, write: LeaseCore) -> None:
        """Under the guard: the write around this read ended, the read stands on its own."""
        self._outer = write._inner = None
        self._hold.lease = weakref.ref(self)
        caller = self._caller()
        if caller is not None:
            caller[self._slot] = self

    def _who(self) -> str:
        """The thread or task that has it, for people; if that is gone, the one that asked."""
        caller = self._caller()
        return callers.read(self._hold.claim.who).who if caller is None else caller.who

    def _forget(self) -> None:
        """The thread or task that acquired it has it no longer."""
        caller = self._caller()
        if caller is None:
            return
        kept = caller.get(self._slot)
        if isinstance(kept, list) and self in kept:
            kept.remove(self)
            if not kept:
                del caller[self._slot]
        elif kept is self:
            del caller[self._slot]

    def _belong(self, caller: Caller, *, alone: bool = True) -> None:
        """Under the guard: this thread or task has it now, as if it had acquired it. `alone`: it
        has at most one in this place, and enters that again.
        """
        self._forget()
        self._caller = caller.weakly
        if alone and self.mode is not Mode.PERMIT:
            caller[self._slot] = self
            return
        others = caller.setdefault(self._slot, [])
        others[:] = [*(each for each in others if each._ended is None), self]

    def _no_longer_held(self) -> LeaseLost | NotHeld:
        place = {"key": self.name, "backend": self.backend}
        if self._ended in (State.LOST, None):
            reason = self._reason or "expired"
            message = (
                f"the hold was lost ({reason}): somebody else may have the lock now; "
                f"stop, and let the fence {self.fence} be checked at the resource"
            )
            return LeaseLost(message, **place)
        if self._reason == "forked":
            why = "belongs to the process that forked; this process has to acquire the lock itself"
        elif self._ended is State.DETACHED:
            why = "was detached; whoever calls attach() with its text now holds the lock"
        else:
            why = "is not held any more: it was released"
        return NotHeld(f"this lease {why}", **place)
