"""One observer looks at one place for any number of viewers, in a thread of its own.

It lists the locks at a bounded rate (`refresh_rate`), keeps a bounded history of what it saw, and
rings its viewers after each listing. What happened before it began it has from the engine's
history, where there is one. An engine that does not answer is asked again; what was on the
screen stays there, marked as old.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from locknut import Capability, Event, HistoryEntry, Holder, LockInfo, Locks
from locknut.cli.messages import who
from locknut.errors import LocknutError
from locknut.observer import attention
from locknut.observer import seams as others
from locknut.observer.acquisitions import Acquisitions
from locknut.observer.changes import Changes, Tracker
from locknut.observer.earlier_events import Earlier, ended, reporter
from locknut.observer.examiner import Examiner
from locknut.observer.line_lengths import LineLengths
from locknut.observer.news import ENDINGS, NewsReader, ending_of, is_of, put_right, retract, tells
from locknut.observer.quantiles import quantile
from locknut.observer.refresh_rate import RefreshRate
from locknut.observer.seams import Cycle, Seams
from locknut.observer.sightings import Concern, Ending, Happening, Moment, Picture, Span
from locknut.observer.span_history import SpanHistory
from locknut.runtimes import cpython

_log = logging.getLogger("locknut")
REFRESH: Final = 2.0
WINDOW: Final = 300.0
"""Seconds whose waits make the percentiles of one moment."""
_READ_PAST_AT: Final = (1, 3)
"""After which listings the engine's history is read: at once, and when everybody has written what
happened before; writers are a second or two late."""
_MOMENTS: Final = 1800
_HAPPENINGS: Final = 2000


class PlaceObserver:
    """What is known of one place. Views read it inside `with observer.guard`."""

    def __init__(
        self,
        locks: Locks,
        *,
        refresh: float = REFRESH,
        seams: Seams | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.locks = locks
        self.place = locks.place
        self.guard = threading.RLock()
        self.picture = Picture()
        self.history = SpanHistory()
        self.tracker = Tracker()
        self.lines = LineLengths()
        self.moments: deque[Moment] = deque(maxlen=_MOMENTS)
        self.happenings: deque[Happening] = deque(maxlen=_HAPPENINGS)
        self.bad_endings: deque[Span] = deque(maxlen=200)
        self.earlier = Earlier()
        """What happened before the first listing."""
        self.cycles: list[Cycle] = []
        self.now = now
        self._suspected: set[frozenset[others.Member]] = set()
        self._from_others: list[Concern] = []
        self._from_history: list[Concern] = []
        self._news = NewsReader()
        self._listings = 0
        self._began: float | None = None
        self._rate = RefreshRate(refresh, locks.backend)
        self._seams = seams or Seams()
        self.doctor = Examiner(self.place, self._checkup)
        self._bell = threading.Event()
        self._viewers: list[Callable[[], object]] = []
        self._closed = False
        self._thread: threading.Thread | None = None
        self._looks_in = 0  # the process that it looks in: a forked child needs its own thread
        self._stop_listening = locks.on_event(self._hear)

    @property
    def acquisitions(self) -> Acquisitions:
        """How often locks are acquired, where programs write that down."""
        return self._news.acquisitions

    @property
    def tells_breaks(self) -> bool:
        """Whether anybody writes down what is broken: a listing shows it as released."""
        return bool(self.earlier.happenings) or self.acquisitions.anybody_writes

    @property
    def tells_waiters(self) -> bool:
        """Whether a line that is empty means that nobody waits."""
        return Capability.WAITERS in self.locks.capabilities

    def shown_at(self) -> float:
        """When it was as it is shown: at the last listing, however long ago that was."""
        at = self.picture.at
        return self.now() if at is None else at

    def start(self) -> None:
        """Begin to look, unless that was done before."""
        with self.guard:
            if self._looks_in != os.getpid() and not self._closed:
                self._looks_in = os.getpid()
                # Not waited for: an interrupt (Ctrl-C) in that wait may come out as a RuntimeError.
                self._thread = cpython.UnawaitedThread(
                    target=self._run, name=f"locknut-observer {self.place}", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop looking. The Locks is its maker's to close."""
        self._closed = True
        self._stop_listening()
        self._bell.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)
        self.doctor.join(timeout=10.0)

    def view(self, ring: Callable[[], object]) -> Callable[[], None]:
        """Call `ring` after every listing, on the observer's thread, until the result is called."""
        with self.guard:
            self._viewers.append(ring)

        def stop() -> None:
            with self.guard:
                if ring in self._viewers:
                    self._viewers.remove(ring)

        return stop

    def look(self) -> None:
        """List once, now, on the calling thread."""
        began, own = time.monotonic(), time.thread_time()
        silent_before = bool(self.picture.problem)
        try:
            locks = tuple(self.locks.list())
        except (LocknutError, OSError) as error:
            self._unreachable(str(error))
            return
        cycles, found = self._deadlocks(locks)
        news = self._news.read(lambda back: others.news(self._seams, self.locks, back))
        took, own = time.monotonic() - began, time.thread_time() - own
        now = self.now()
        with self.guard:
            self._rate.cost(took, own, sum(len(each.holders) + len(each.waiters) for each in locks))
            changes = self.tracker.take_in(locks, now, after_silence=silent_before)
            # What a listing says was not true at one moment: a circle counts when it is seen twice.
            self.cycles = [each for each in cycles if frozenset(each) in self._suspected]
            self._suspected = {frozenset(each) for each in cycles}
            in_doubt = len(self.cycles) < len(cycles)
            self._from_others = [*found, *map(others.concern_of, self.cycles)]
            self._remember(changes, now)
            self._take_news(news)
            self.lines.take_in(locks)
            version, pause = self.picture.version + 1, self._rate.next_pause(in_doubt=in_doubt)
            self.picture = Picture(version, locks, now, took, pause, began=began)
            if silent_before:
                self.happenings.append(Happening(now, "reachable", "", detail=self.place))
            self.moments.append(self._moment(now))
            self._began = now if self._began is None else self._began
            self._listings += 1
        if self._listings in _READ_PAST_AT:
            self._read_past(self._began)

    def _read_past(self, before: float) -> None:
        found, concerns = others.past(self._seams, self.locks, before)
        with self.guard:
            self.earlier, self._from_history = found, concerns
            self._news.begin(readable=not concerns)

    def _take_news(self, entries: Sequence[HistoryEntry]) -> None:
        """What others broke or lost since the first listing, which no listing tells."""
        for each in self._news.fresh(entries, self._began or 0.0):
            name, fence, ending = each.name, each.fence, ending_of(each)
            if not self._known(name, fence, ending, each.reason):
                holds = self.history.of(name).holds
                over = fence and put_right(holds, name, fence, ending, each.reason)
                if over:
                    retract(self.happenings, name, over.holder.fence)
                self.bad_endings.append(over or ended(each, ending))
            if not tells(self.happenings, each):
                by = who(reporter(each))
                self.happenings.append(
                    Happening(each.time, each.kind, name, by, fence, each.reason)
                )

    def events(self, name: str | None = None) -> list[Happening]:
        """What happened, to one lock or to all, the latest last."""
        with self.guard:
            both = (*self.earlier.happenings, *self.happenings)
            return [each for each in both if name in {None, each.name}]

    def endings(self) -> list[Span]:
        """The holds that ended badly."""
        with self.guard:
            return [*self.earlier.bad_endings, *self.bad_endings]

    def break_hold(self, name: str, fence: int, reason: str) -> bool:
        """Break the hold with this fence, and no other; StaleFence if another one holds it."""
        broken = self.locks.force_release(name, fence, reason=reason)
        self._bell.set()
        return broken

    def concerns(self) -> list[Concern]:
        """What needs attention, the worst first."""
        with self.guard:
            evidence = attention.Evidence(
                self.picture,
                self.tracker.holds.values(),
                self.tracker.waits.values(),
                self.history,
                self.endings(),
            )
            unsafe = attention.of_the_engine(self.doctor.findings)
            more = [*self._from_others, *self._from_history, *unsafe]
            return attention.concerns(evidence, self.now(), more)

    def _run(self) -> None:
        while not self._closed:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  # told on the screen, which must not stand still
                self._unreachable(f"it cannot be read: {error!r}")
            if not self.picture.problem:
                self.doctor.examine_if_due()
            with self.guard:
                viewers = list(self._viewers)
            for ring in viewers:
                try:
                    ring()
                except Exception:  # noqa: BLE001  # the others want to know, and to look on
                    _log.exception("a viewer of %s failed", self.place)
            self._rest()

    def _checkup(self) -> Sequence[Concern]:
        return [each._replace(since=self.now()) for each in others.checkup(self._seams, self.locks)]

    def _rest(self) -> None:
        """Viewers that come and go do not end a pause: however many they are, the engine is asked
        no more often. Only a break does, so that its author sees what it did.
        """
        self._bell.wait(self.picture.pause)
        self._bell.clear()

    def _deadlocks(self, locks: Sequence[LockInfo]) -> tuple[list[Cycle], list[Concern]]:
        """Asked for where this listing shows a circle, or holds of this process, whose threads may
        wait where no engine sees them. Most often it costs no listing more.
        """
        lines = [each for each in locks if each.waiters]
        unseen = len(lines) > 1 and others.ours_are_among(lines)
        if unseen or others.may_be_a_deadlock(lines):
            return others.deadlocks(self._seams, self.locks)
        return [], []

    def _unreachable(self, problem: str) -> None:
        now = self.now()
        with self.guard:
            before = self.picture
            if not before.problem:
                self.happenings.append(Happening(now, "unreachable", "", detail=problem))
            self.picture = before._replace(
                version=before.version + 1,
                problem=problem,
                unreachable_since=before.unreachable_since or now,
                pause=self._rate.next_pause(),
            )

    def _hear(self, event: Event) -> None:
        """Events of the Locks itself: what this process broke, and, in a program that shows its own
        locks, what it lost.
        """
        ending = ENDINGS.get(event.kind)
        if ending is None:
            return
        with self.guard:
            now, fence = self.now(), event.fence
            if not self._known(event.name, fence, ending, event.reason):
                unlisted = Holder(who=event.holder, raw=fence, fence_step=1)
                over = Span(event.name, unlisted, now, now, ending, event.reason)
                self.bad_endings.append(over)
            self.happenings.append(
                Happening(now, event.kind, event.name, event.holder, fence, event.reason)
            )

    def _known(self, name: str, fence: int | None, ending: Ending, note: str) -> bool:
        """Whether a listing showed or will show this end: the one who broke a hold speaks of it,
        and then the one who lost it.
        """
        if fence is None:
            return False
        told = any(is_of(each, name, fence) for each in self.bad_endings)
        return told or self.tracker.explain(name, fence, ending, note)

    def _remember(self, changes: Changes, now: float) -> None:
        for each in changes.ended_holds:
            self.history.add_hold(each)
            if each.ending.bad:
                self.bad_endings.append(each)
            if each.ending not in {Ending.BROKEN, Ending.LOST}:  # those were heard of as events
                self._happened(now, each.ending.value, each)
        for each in changes.ended_waits:
            self.history.add_wait(each)
            if each.ending is Ending.LEFT:
                self._happened(now, each.ending.value, each)
        if self.picture.at is not None:  # what the first listing shows did not happen now
            for each in changes.began_holds:
                self._happened(each.since, "granted", each)
            for each in changes.began_waits:
                self._happened(each.since, "waiting", each)

    def _happened(self, at: float, kind: str, each: Span) -> None:
        holder = each.holder
        lasted = "" if each.until is None else f"after {each.until - each.since:.1f} s"
        self.happenings.append(Happening(at, kind, each.name, who(holder), holder.fence, lasted))

    def _moment(self, now: float) -> Moment:
        waited = self.history.waited(now - WINDOW)
        longest = max((each.lasted(now) for each in self.tracker.waits.values()), default=0.0)
        quantiles = (quantile(waited, share) for share in (0.5, 0.95, 0.99))
        return Moment(now, self.picture.held, self.picture.waiting, longest, *quantiles)
