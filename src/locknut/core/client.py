"""What one Locks knows: its engine, its lines, its holds, and the keeper that looks after them.

The verbs are in `acquiring`, `releasing`, `renewing`, `losing`, `detaching`, `inspecting`,
`breaking` and `closing`. They change this state under `guard`, which is never held over a command
or a wait: what a step decides under the guard it carries out after.
"""

from __future__ import annotations

import weakref
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from locknut.core import callers, validation
from locknut.core.holding import NEW, Hold
from locknut.core.keeper import Keeper
from locknut.core.lock_request import LockRequest
from locknut.core.schedule import CONFIRM_AFTER, is_short
from locknut.core.values import Capability, Claim, Event, KeyPolicy, Mode
from locknut.errors import ConfigurationError, DeadlockDetected

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from locknut.core.callers import Caller
    from locknut.core.closing import Closing
    from locknut.core.holding import LeaseCore
    from locknut.core.lock_request import LockOptions
    from locknut.core.naming_holder import HolderQuestion
    from locknut.core.ports import Backend, EventSink, Runtime, Signal
    from locknut.core.queueing import Line, Waiter
    from locknut.core.recording import Recorder
    from locknut.core.wait_graph import WaitGraph


class Awake:
    """A waiting caller, as closing sees it: its signal is in the set while the context lasts."""

    __slots__ = ("_signal", "_waiting")

    def __init__(self, waiting: set[Signal], signal: Signal):
        self._waiting = waiting
        self._signal = signal

    def __enter__(self) -> None:
        self._waiting.add(self._signal)

    def __exit__(self, *raised: object) -> None:
        self._waiting.discard(self._signal)


_serials = count(1)
_PERMIT = Mode.PERMIT
_new_tuple = tuple.__new__


class Client:
    """The state behind one Locks, blocking or asyncio."""

    def __init__(  # noqa: PLR0913, PLR0915  # everything it is made of, each by name
        self,
        *,
        backend: Backend,
        runtime: Runtime,
        keeper_runtime: Runtime,
        keeper_backend: Callable[[Runtime], Backend],
        keeper_start: Callable[[Coroutine[Any, Any, None]], object],
        events: EventSink,
        lease_type: Callable[..., Any],
        namespace: str,
        label: str = "",
        cohort: int = 16,
        id: str = "",  # noqa: A002  # the option's own name
        key_policy: KeyPolicy = KeyPolicy(),  # noqa: B008  # a tuple
        how_to_see: Callable[[str], str] = str,
        reopen: Callable[[Client], Client] | None = None,
        serial: int = 0,
        carried: Callable[[Client], tuple[object, ...]] = validation.refuse_copy,
        identity: str = "",
        breaks: bool = False,
        place: str = "",
        recorder: Recorder | None = None,
    ):
        self.backend = backend
        self.runtime = runtime
        self.events = events
        self.lease_type = lease_type
        self.prefix = namespace + ":" if namespace else ""
        self.label = label
        self.cohort = cohort if key_policy.hand_over else 0
        self.fence_step = key_policy.fence_step
        self.steps_back = not key_policy.hand_over or Capability.FAIR not in backend.capabilities
        """Whether we step back after a cohort, because the engine has no line for others (L14)."""
        self.waits_on_first_attempt = backend.waits_on_first_attempt
        """Whether it is of any use to let the first question of a claim wait in the engine."""
        self.heartbeat = backend.heartbeat
        self.id = id
        self.how_to_see = how_to_see
        """How a person can see who holds a name, for messages."""
        self.serial = serial or next(_serials)
        self.reopen = reopen
        """In a forked child: makes the client that takes the place of this one."""
        self.carried = carried
        """What a pickle of this Locks or of one of its locks has in place of the client."""
        self.identity = identity
        """Of the Locks, in every process that has it; empty if it cannot be pickled."""
        self.breaks = breaks
        """Whether a waiter looks for deadlocks that it is part of, and may be told to give way."""
        self.place = place
        """Where the locks live, as far as it can be shown."""
        self.successor: Client | None = None
        """That client, once it was needed."""
        self.take_guard()
        self.lines: dict[str, Line] = {}
        self.holds: dict[str, Hold] = {}
        """Every live hold by its claim id."""
        self.waiting: set[Signal] = set()
        """What callers sleep on, so that closing can wake them."""
        self.looked: tuple[float, frozenset[str], WaitGraph] | None = None
        """What a caller that looked for deadlocks saw last, when, and in which places."""
        self.questions: dict[str, HolderQuestion] = {}
        """The questions who holds a key that are being asked now, by key."""
        self._not_emitted: deque[Event] = deque()
        """Events that are emitted aside, including the one that is being emitted now."""
        self.on_errands = 0
        """Whether the keeper acts for a caller: then events are emitted aside."""
        self.closed = ""
        """Why this client can no longer be used; empty while it can."""
        self.closing: Closing | None = None
        """What `close` has ended so far."""
        self.recorder = recorder
        """Writes events into the engine's history, where that is wanted."""
        self.exiting = False
        """Whether the interpreter exits: leases then go with everything else, not one by one."""
        self.keeper = Keeper(self, keeper_runtime, keeper_backend, keeper_start)
        self.schedule = self.keeper.schedule  # at hand, because every acquire asks it
        self.keeper.listen_to(backend)

    def take_guard(self) -> None:
        """Take a new guard: in a forked child the thread that had the old one does not exist."""
        self.guard = self.runtime.guard()
        self.in_guard = self.guard.inside
        self.in_engine = self.backend.inside
        """Both at hand, because every call asks them."""

    def __reduce__(self) -> tuple[object, ...]:
        return self.carried(self)

    def nested(self) -> bool:
        """Whether this call comes from code of others that runs inside one of ours, on the same
        thread: from a finalizer or a signal handler.
        """
        return self.in_guard() or self.in_engine()

    def bare(self, key: str) -> str:
        """The name that the user gave."""
        return key.removeprefix(self.prefix)

    def slot(self, key: str, options: LockOptions) -> str:
        """Where a caller keeps its lease of this key, to be found when it enters again.

        A caller enters only what it has through this Locks. Through another one, even of the same
        engine, it waits as others do.
        """
        kind = f"owner {options.owner}" if options.owner is not None else ""
        if options.mode is Mode.PERMIT:
            kind = "permits"
        return f"{self.serial}:{len(kind)}:{kind}:{key}"  # a text, because its hash is kept

    def request(self, name: str, options: LockOptions) -> LockRequest:
        key = self.prefix + name
        queues_locally = (
            options.mode is Mode.EXCLUSIVE and options.owner is None and not options.fair
        )
        ttl = self.backend.default_ttl if options.ttl is None else options.ttl
        return LockRequest(
            key, options, self.slot(key, options), queues_locally=queues_locally, ttl=ttl
        )

    def claim(self, request: LockRequest, caller: Caller, *, waits: bool = True) -> Claim:
        """Make a new claim for this caller."""
        ttl, mode, permits, fair, owner = request.facts
        signed = caller.signed or caller.sign()
        who = callers.breaking(signed) if self.breaks else signed
        new = (
            request.key, self.runtime.new_id(), ttl, mode, permits, fair, owner,
            who, self.label, waits, not request.options.hand_over,
        )  # fmt: skip
        return _new_tuple(Claim, new)  # half the price of Claim(...), and every attempt makes one

    def patience(self, left: float) -> float:
        """How long a first question may wait in the engine: not at all where somebody listens to
        the event of a wait, or looks for deadlocks meanwhile.
        """
        return 0.0 if self.breaks or self.events.wants("waiting") else left

    def ensure_open(self) -> None:
        if self.closed:
            raise ConfigurationError(self.closed, backend=self.backend.name)
        if self.nested():
            self.refuse_nested()

    def refuse_nested(self) -> None:
        message = (
            "called by a finalizer or a signal handler that interrupted Locknut itself on this "
            "thread: it would wait for itself; do this on another thread, or later"
        )
        raise DeadlockDetected(message, backend=self.backend.name)

    def awake(self, signal: Signal) -> Awake:
        """While a caller waits on this signal, closing rings it."""
        return Awake(self.waiting, signal)

    def emit(
        self, kind: str, what: Hold | LeaseCore, *, aside: bool = False, **facts: Any
    ) -> None:  # an Event's fields
        """Emit an event; `aside` where the keeper emits it, which listeners must not hold up."""
        if self.events.wants(kind, facts.get("waited", 0.0)):
            hold = what if isinstance(what, Hold) else what._hold
            number = hold.number if isinstance(what, Hold) else what._number
            name, mode = self.bare(hold.claim.key), hold.claim.mode
            fence = hold.raw * self.fence_step + number
            facts["holder"] = hold.who() if isinstance(what, Hold) else what._who()
            self.emit_event(Event(kind, name, self.backend.name, mode, fence, **facts), aside=aside)

    def emit_request(self, kind: str, request: LockRequest, **facts: Any) -> None:  # as above
        if self.events.wants(kind):
            mode = request.options.mode
            self.emit_event(Event(kind, self.bare(request.key), self.backend.name, mode, **facts))

    def emit_event(self, event: Event, *, aside: bool = False) -> None:
        """Emit it here and now, unless an earlier event is still to be emitted: order is kept."""
        not_emitted = self._not_emitted
        if aside or not_emitted or self.on_errands:
            not_emitted.append(event)
            self.runtime.aside(partial(self._emit_up_to, event, not_emitted))
        else:
            self.events.emit(event)

    def _emit_up_to(self, event: Event, not_emitted: deque[Event]) -> None:
        """Emit this one, after those before it: their turn may have gone with a loop that was
        closed. From the queue that it was put into: fakes of a test may take our place meanwhile.
        """
        emitted: Event | None = None
        while not_emitted and emitted is not event:
            emitted = not_emitted[0]
            try:
                self.events.emit(emitted)
            finally:
                not_emitted.popleft()

    async def all_emitted(self, until: float) -> None:
        """Wait until the events that wait for their turn have been emitted, or until that time."""
        if self._not_emitted:
            emitted = self.runtime.signal()
            self.runtime.aside(emitted.notify)
            await emitted.wait(until)

    def abandon(self, hold: Hold, number: int) -> None:
        """From a destructor: nothing but an append and a ring."""
        if not self.closed and not self.exiting and self.runtime.at_home():
            self.keeper.abandon(hold, number)

    def later(self, work: Callable[[Backend], Coroutine[Any, Any, None]]) -> None:
        """Do this on the keeper's thread, because where it was asked for it cannot be done. It is
        given the keeper's connection.
        """
        self.keeper.do(work)

    def begin(self, hold: Hold) -> None:
        """From now on the keeper looks after this hold. If that fails, because no thread can be
        started, its caller releases it: it goes back to the engine, not to the next in line, who
        would believe that it is renewed.
        """
        self.holds[hold.claim.id] = hold
        if hold.ttl != hold.claim.ttl and is_short(hold):
            hold.due = min(hold.due, self.runtime.now() + CONFIRM_AFTER)
        try:
            if hold.due < self.schedule.timetable.asleep_until:
                self.schedule.expect(hold)  # before the keeper wakes by itself most holds are over
            if self.heartbeat is not None and not self.schedule.beating:
                self.schedule.beat()
        except BaseException:
            hold.options = hold.options._replace(hand_over=False)
            raise

    def drop(self, hold: Hold) -> None:
        """Under the guard: from now on no renewal's answer counts for it (S18)."""
        hold.ending = True
        self.holds.pop(hold.claim.id, None)
        if hold.bucket is not NEW:
            self.schedule.timetable.remove(hold)

    def pass_turn(self, line: Line) -> Waiter | None:
        """Under the guard: the next in line is first now; an empty line goes away."""
        waiter = line.next()
        if waiter is None and self.lines.get(line.key) is line:
            del self.lines[line.key]
        return waiter

    def lend(
        self, hold: Hold, caller: Caller, slot: object, acquired: list[LeaseCore]
    ) -> LeaseCore:
        """The caller has it from now on; a semaphore's permits add up instead of nesting."""
        lease: LeaseCore = self.lease_type(self, hold, caller, slot)
        hold.lease = weakref.ref(lease)
        acquired.append(lease)
        if hold.claim.mode is _PERMIT:
            caller.setdefault(slot, []).append(lease)
        else:
            caller[slot] = lease
        return lease

    def held_here(self, key: str, mode: Mode) -> str:
        """Which thread or task of this process holds this key; empty if none is known to."""
        found = [each for each in self.holds.copy().values() if each.claim.key == key]
        ours = [each for each in found if (each.claim.mode is _PERMIT) is (mode is _PERMIT)]
        return ours[0].who() if ours else ""
