"""The line of one key inside this process: who has the turn, who is next, who inherits.

In exclusive mode one thread or task asks the engine; the others wait here, first come, first
served, without I/O. Everything in this file is decided under the client's guard and does no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from locknut.core.pacing import COHORT_SECONDS
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.holding import Hold
    from locknut.core.lock_request import LockOptions
    from locknut.core.ports import Signal
    from locknut.core.values import Claim


class Waiter:
    """One thread or task in the line, and what it was given when it was woken."""

    __slots__ = ("caller", "hold", "options", "signal", "turn")

    def __init__(self, options: LockOptions, signal: Signal, caller: Callable[[], Caller | None]):
        self.options = options
        self.signal = signal
        self.caller = caller
        """The thread or task, weakly."""
        self.turn = False
        """True: it is first now and asks the engine itself."""
        self.hold: Hold | None = None
        """A hold handed over inside the process: no need to ask."""


_NOBODY: OrderedDict[Waiter, None] = OrderedDict()
"""What every line has until somebody joins it: most are gone before that, and making one costs."""


class Line:
    """The one that has the turn (it asks, or it holds), and those behind it."""

    __slots__ = ("key", "left", "pause_until", "unheard", "waiters")

    def __init__(self, key: str):
        self.key = key
        self.waiters = _NOBODY
        self.left: tuple[Claim, int] | None = None
        """A claim left by an asker that gave up, and how many of its sendings had no answer: it
        keeps the process's place in the engine."""
        self.unheard = False
        """Whether the one that has the turn left without an answer of the engine, which is finished
        behind it. Then nobody here knows whether the lock is held."""
        self.pause_until = 0.0
        """Where the engine has no line, a process steps back after a cohort (L14)."""

    def join(self, options: LockOptions, signal: Signal, caller: Caller) -> Waiter:
        waiter = Waiter(options, signal, caller.weakly)
        if self.waiters is _NOBODY:
            self.waiters = OrderedDict()
        self.waiters[waiter] = None
        return waiter

    def is_first(self, waiter: Waiter) -> bool:
        return next(iter(self.waiters), None) is waiter

    def leave(self, waiter: Waiter) -> None:
        self.waiters.pop(waiter, None)

    def next(self) -> Waiter | None:
        """Give the turn to the first in line."""
        self.unheard = False
        if not self.waiters:
            return None
        waiter = next(iter(self.waiters))
        # No call from here on: an interrupt (Ctrl-C) comes after calls, and would lose the turn.
        del self.waiters[waiter]
        waiter.turn = True
        return waiter

    def heir(self, hold: Hold, now: float, cohort: int) -> Waiter | None:
        """Hand the hold over to the first in line, if it may have it; it then leaves the line."""
        if not self.waiters:
            return None
        first = next(iter(self.waiters))
        if first.options != hold.options or not may_hand_over(hold, now, cohort):
            return None
        del self.waiters[first]
        first.hold = hold
        return first


def may_hand_over(hold: Hold, now: float, cohort: int) -> bool:
    """Bounded, so that other processes are not starved, and only with time left to use."""
    options = hold.options
    return (
        hold.number < cohort
        and options.hand_over
        and not options.fair
        and now < hold.since + COHORT_SECONDS
        and (hold.ttl is None or hold.valid_until - now >= hold.ttl / 2)
    )


def may_pass_on(client: Client, owner: Caller | None) -> bool:
    """Whether the identity that the engine knows the holder by can be somebody else's from now on.

    Not if it is needed: the owner may just wait in an engine under it, where somebody else releases
    this lease; or it holds more, where deadlocks are broken and others have to see that.
    """
    if owner is None:
        return True
    try:
        here = client.runtime.caller() is owner
    except (ConfigurationError, RuntimeError):  # on the keeper's thread, or outside of any task
        here = False
    if here:
        return not (client.breaks and owner.leases())
    return not client.runtime.alive(owner)
