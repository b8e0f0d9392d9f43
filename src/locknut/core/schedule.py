"""When each hold of a client is looked at next: to renew it, or because its time is over.

First the arithmetic for one hold, then the plan for all of them.

The keeper follows this plan: it takes out what is due, and sleeps until something is. Whoever
begins, renews or drops a hold changes the plan under the client's guard, and rings if the keeper
would sleep too long for it. Most holds are never in it: they are over before the keeper looks.

An interrupt (Ctrl-C) may come between taking a hold out and putting it back in. Then the plan is
`disturbed`, and the keeper begins anew: it looks at every hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import pacing
from locknut.core.holding import NEW
from locknut.core.runtime_port import NEVER
from locknut.core.timetable import Timetable, newest

if TYPE_CHECKING:
    from collections.abc import Callable

    from locknut.core.client import Client
    from locknut.core.holding import Hold

PUNCTUAL = 0.02
"""How much later than its time a hold may be looked at, to share the timetable of its fellows."""
CONFIRM_AFTER = 0.05
"""When a grant for less than was asked is confirmed, and so gets its full ttl: a stall of seconds
must not cost it what was promised for half a minute. Most contended holds are over by then."""


def is_short(hold: Hold) -> bool:
    """Whether the engine granted less than was asked: until its owner confirms it."""
    return hold.ttl is not None and hold.ttl < (hold.claim.ttl or 0.0)


def interval(hold: Hold) -> float:
    """How often it is renewed: at a third of its ttl. Holds without a ttl have the heartbeat.

    A grant for less than was asked is confirmed even where nothing is renewed: just once, for
    then it has its full ttl.
    """
    if hold.ttl is None:
        return NEVER
    if not hold.options.auto_renew and not is_short(hold):
        return NEVER
    return hold.ttl / pacing.RENEWALS_PER_TTL


def first_look(hold: Hold) -> float:
    """Return after how long the keeper looks at it: a constant, so that nothing is left behind."""
    options = hold.options
    first = interval(hold)
    if first == NEVER and hold.ttl is not None:
        first = pacing.validity(0.0, hold.ttl)
    return first if options.max_hold is None else min(first, options.max_hold)


def sooner(hold: Hold, start: float) -> float:
    """After how long a hold is renewed for which the engine vouches for less than its ttl, as a
    ZooKeeper does for its session; NEVER for others.
    """
    if hold.valid_until >= pacing.validity(hold.anchor, hold.ttl):
        return NEVER
    return max(pacing.RETRY_FIRST, (hold.valid_until - start) / pacing.RENEWALS_PER_TTL)


class Schedule:
    """The plan of one client's holds; `ring` wakes the keeper, or starts it."""

    def __init__(self, client: Client, ring: Callable[[], None]):
        self.client = client
        self.ring = ring
        self.timetable = Timetable()
        self.disturbed = False
        """Whether a look was broken off, so that nobody knows what was done and planned."""
        self.beating = False
        """Whether all holds are looked at at `beat_at`, where the engine has a heartbeat."""
        self.beat_at = NEVER

    def expect(self, hold: Hold) -> None:
        """A hold has begun that must be looked at sooner than the keeper would by itself."""
        self.ring()  # first: interrupted (Ctrl-C) in between, the next one just rings again
        with self.client.guard:
            if hold.bucket is NEW:  # else it has been seen already
                self.timetable.asleep_until = min(self.timetable.asleep_until, hold.due)

    def take_in(self) -> None:
        """Under the guard: plan the first look at holds that began since the last one.

        They stand together at the end of all holds. Most holds never come here: they are over
        before, and neither their beginning nor their end touches the timetable.
        """
        for hold in reversed(newest(self.client.holds)):
            self._plan_first(hold)

    def _plan_first(self, hold: Hold) -> None:
        hold.bucket = None
        if is_short(hold):
            self.timetable.add_once(hold, hold.due)
            return
        delay = first_look(hold)
        if delay == NEVER:
            return
        slack = delay / 10
        if interval(hold) == delay:
            self._plan_renewal(hold, hold.anchor, delay, slack)
        else:  # its end, not a renewal: the notice must be on time
            self.timetable.add(hold, hold.anchor, delay, min(slack, PUNCTUAL))

    def plan(self, hold: Hold, now: float, *, at_once: bool = False) -> None:
        """Under the guard: plan the next look, after a renewal was answered or not; `at_once` if it
        should be renewed now.
        """
        try:
            if self._plan_next(hold, now, at_once=at_once):
                self.ring()
        except BaseException:  # interrupted (Ctrl-C) in a caller: one may have no date now
            self.disturbed = True
            self.ring()
            raise

    def _plan_next(self, hold: Hold, now: float, *, at_once: bool) -> bool:
        """Return whether the keeper must be woken to be in time, as `Timetable.add` does."""
        if hold.bucket is NEW:
            self.take_in()  # those before it too, or they would never be seen
        if hold.due != NEVER:  # or else it was taken out because it was due
            self.timetable.remove(hold)
        every = interval(hold)
        if at_once and every != NEVER:
            return self.timetable.add_once(hold, now)
        if hold.failures:
            retry = now + pacing.backoff(hold.failures, self.client.runtime.random())
            return self.timetable.add_once(hold, min(retry, hold.ends_at()))
        if now + every < hold.hold_until and every != NEVER:
            # From its sending, as its validity is: a slow answer does not make the next one late.
            start = max(hold.anchor, now + pacing.RETRY_FIRST - every)
            return self._plan_renewal(hold, start, every)
        end = hold.ends_at()
        return end != NEVER and self.timetable.add_once(hold, end)

    def _plan_renewal(self, hold: Hold, start: float, every: float, slack: float = 0.0) -> bool:
        """After its interval, or sooner if the engine granted less than was asked for, as the
        session of a ZooKeeper may.
        """
        earlier = sooner(hold, start)
        if earlier < every:
            return self.timetable.add_once(hold, start + earlier)
        return self.timetable.add(hold, start, every, slack)

    def plan_end(self, hold: Hold) -> None:
        """Look at it again when its time is over: nothing renews it."""
        with self.client.guard:
            if not hold.ending:
                self.timetable.add_once(hold, hold.ends_at())

    def pop_due(self, now: float) -> list[Hold]:
        """Take out those that are to be looked at by then: one batch, at the most."""
        with self.client.guard:
            self.take_in()
            return self.timetable.pop_due(now)

    def beat(self) -> None:
        """Begin to look at all holds, every heartbeat: short ones are over by then."""
        self.beating = True
        try:
            self.beat_at = self.client.runtime.now() + (self.client.heartbeat or NEVER)
            self.ring()
        except BaseException:  # interrupted (Ctrl-C): the next one begins
            self.beating = False
            raise

    def pop_beat(self) -> list[Hold]:
        """All holds, if it is time for the heartbeat; none if it is not."""
        if self.client.runtime.now() < self.beat_at:
            return []
        self.beating, self.beat_at = False, NEVER  # first: a new hold beats anew
        holds = list(self.client.holds.copy().values())
        if holds:
            self.beat()
        return holds

    def lie_down(self) -> float:
        """Return when to look next; until then, whatever must be looked at sooner rings."""
        with self.client.guard:
            promised = self.timetable.stir()  # first: a hold that is too late for this round rings
            self.take_in()
            until = self.timetable.rest(self.client.runtime.now(), promised)
        return min(until, self.beat_at)

    def begin_anew(self) -> None:
        """Whatever was planned may be forgotten, so every hold is looked at now."""
        with self.client.guard:
            self.timetable = Timetable()
            now = self.client.runtime.now()
            for hold in list(self.client.holds.values()):
                hold.bucket, hold.due = None, NEVER
                if hold.ends_at() != NEVER:
                    self.timetable.add_once(hold, now)
            if self.client.heartbeat is not None:
                self.beating, self.beat_at = True, now
            self.disturbed = False
