"""What `once` of either face is, apart from waiting: its options, its slot, and what has begun.

Two locks make a run. The lock of the name is held while the work is done, so that no two runs
overlap. The lock of the slot (`name@2026-11-17T18:45:00Z`) says that the slot is taken: it is
detached, so it stays held in the engine, without anybody, until the slot cannot come again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from locknut.core import validation
from locknut.core.durations import spell
from locknut.core.holding import LeaseCore
from locknut.core.values import Capability, Event
from locknut.errors import ConfigurationError, NotHeld
from locknut.faces import slots
from locknut.faces.slots import At, Slot

if TYPE_CHECKING:
    from locknut.core.ports import Backend

_NEEDS = "; once() remembers in a detached hold which slots are done"

LeaseT = TypeVar("LeaseT", bound=LeaseCore)


class Run(Generic[LeaseT]):
    """One start, and the run that becomes of it. It is made before anything is acquired for it."""

    __slots__ = ("acquired", "entered", "slot")

    slot: Slot
    """Unset until it is known."""

    def __init__(self) -> None:
        self.acquired: list[Any] = []
        """On the lock of the slot, with `retry`, and last on that of the name; empty if skipped."""
        self.entered = 0
        """How often the lock of the name was entered when the run began to end."""

    @property
    def lease(self) -> LeaseT:
        """Of the lock of the name: it is held while the work is done."""
        lease: LeaseT = self.acquired[-1]
        return lease

    @property
    def mark(self) -> LeaseT | None:
        """Of the lock of the slot, with `retry`; None once the slot is taken for good."""
        return self.acquired[0] if len(self.acquired) > 1 else None


class OnceBase(Generic[LeaseT]):
    """At most one run for each slot, across all hosts."""

    def __init__(  # noqa: PLR0913  # the options of `once`, each by name
        self,
        locks: Callable[[], Any],
        name: str,
        per: validation.Duration | None,
        at: At | None,
        *,
        at_least: validation.Duration | None,
        at_most: validation.Duration | None,
        retry: bool,
        ttl: validation.Duration | None,
    ):
        if callable(name):
            called = getattr(name, "__name__", "report")
            raise ConfigurationError(f'once needs a name: @once("{called}", per="24h")')
        if per is None and at is None:
            raise ConfigurationError('once needs per="24h", or at= the time of the schedule')
        self.name = validation.name(name)
        self._locks = locks
        """Asked anew at every use."""
        self._per = slots.PER_OF_AT if per is None else _length(per)
        self._at = at
        self._at_least = 0.0 if at_least is None else validation.seconds(at_least, "at_least")
        self._at_most = validation.max_hold(at_most)
        self._ttl = ttl
        self._retry = bool(retry)
        self._runs: dict[object, list[Run[LeaseT]]] = {}
        """What was begun and has not ended, by thread or task; also every skipped `with`."""
        if at is not None and not self._is_template(at):
            slots.moment(at)

    @staticmethod
    def _is_template(at: object) -> bool:
        return isinstance(at, str) and "{" in at

    def check_engine(self, locks: Any) -> Self:
        """Refuse an engine that cannot remember a slot for long enough."""
        backend = locks._client.backend
        validation.has(backend, Capability.DETACHING, _NEEDS)
        kept = slots.kept_for(self._per, self._at_least)
        longest = backend.max_detached_ttl or backend.max_ttl
        if kept > longest:
            message = (
                f"a slot of {spell(self._per)} has to be remembered for {spell(kept)}, and the "
                f"{backend.name} engine keeps a detached hold for at most {spell(longest)}"
            )
            raise ConfigurationError(message, key=self.name, backend=backend.name)
        return self

    def _slot(self) -> Slot:
        if self._is_template(self._at):
            message = f"at={self._at!r} is a template: it is for the decorator"
            raise ConfigurationError(message, key=self.name)
        return slots.slot_of(self._at, self._per, self._at_least, slots.wall_clock())

    def _is_late(self, slot: Slot) -> bool:
        """Asked before the locks are taken, and again after: this host may have been suspended."""
        return slots.wall_clock() >= slot.too_late_at

    def _left(self, backend: Backend, slot: Slot) -> float:
        """For how long the slot is to be remembered, from now on."""
        return slot.left(slots.wall_clock(), backend.max_detached_ttl or backend.max_ttl)

    def _skipped(self, locks: Any, slot: Slot, why: str) -> None:
        """Tell the listeners and the log that nothing was run."""
        client = locks._client
        if client.events.wants("skipped"):
            reason = f"slot {slot.text}: {why}"
            client.emit_event(Event("skipped", self.name, client.backend.name, reason=reason))

    def _for_call(self, function: Callable[..., Any], *, coroutine: bool) -> Callable[..., Self]:
        """Return what makes the same for one call of a function: name and time by its arguments."""
        from locknut.faces import templates  # brings `inspect`, which few programs need

        templates.refuse(function, coroutine=coroutine)
        name_of = templates.namer(self.name, function)
        at, at_of = self._at, None
        if isinstance(at, str) and self._is_template(at):
            at_of = templates.namer(at, function)

        def made(*args: object, **kwargs: object) -> Any:  # one of this class
            return type(self)(
                self._locks,
                name_of(*args, **kwargs),
                self._per,
                at if at_of is None else at_of(*args, **kwargs),
                at_least=self._at_least,
                at_most=self._at_most,
                retry=self._retry,
                ttl=self._ttl,
            )

        return made

    @staticmethod
    @abstractmethod
    def _caller() -> object:
        """Return what stands for the calling thread or task."""

    @property
    def scheduled(self) -> datetime | None:
        """The scheduled time of the run that the calling thread or task is in; None outside."""
        runs = self._runs.get(self._caller())
        if not runs or not runs[-1].acquired:
            return None
        return datetime.fromtimestamp(runs[-1].slot.at, UTC)

    def _begun(self, run: Run[LeaseT]) -> LeaseT | None:
        """Note it for the end of a `with`, which has to know whether it was skipped."""
        lease = run.lease if run.acquired else None
        self._runs.setdefault(self._caller(), []).append(run)
        return lease

    def _forget(self, run: Run[LeaseT]) -> None:
        """It has not begun after all."""
        caller = self._caller()
        left = [each for each in self._runs.get(caller, ()) if each is not run]
        if left:
            self._runs[caller] = left
        else:
            self._runs.pop(caller, None)

    def _ended(self) -> Run[LeaseT]:
        """Return what this thread or task began last and has not ended yet.

        An asynchronous generator or a fixture may be left in another task than it was entered in.
        """
        caller = self._caller()
        if caller not in self._runs and len(self._runs) == 1:
            (caller,) = self._runs
        runs = self._runs.get(caller)
        if not runs:
            raise NotHeld("this thread or task has begun no run", key=self.name)
        only, run = len(runs) == 1, runs[-1]
        # No call from here on: an interrupt (Ctrl-C) comes after calls, and would lose it.
        if run.acquired:
            run.entered = run.acquired[-1]._count
        if only:
            del self._runs[caller]
        else:
            del runs[-1]
        return run

    def __repr__(self) -> str:
        when = f"per {spell(self._per)}" if self._at is None else f"at {self._at}"
        return f"<{type(self).__module__}.{type(self).__name__} {self.name!r} {when}>"


def _length(per: validation.Duration) -> float:
    seconds = validation.seconds(per, "per")
    if not 0 < seconds < float("inf"):
        raise ConfigurationError(f"per must be above 0 and finite, got {per!r}")
    return seconds
