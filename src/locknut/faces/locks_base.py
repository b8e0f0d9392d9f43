"""What a Locks of either face is, apart from waiting: it makes locks from options.

Every option of a lock, and what is said about it, stands here once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

from locknut import opening
from locknut.core import validation
from locknut.core.values import Capability, Event, Mode
from locknut.faces.lock_base import LockBase, LockGroupBase, LockT, RWLockBase, SemaphoreBase
from locknut.faces.options import LockKeywords, OnBusy, OnLost, make_options

RWLockT = TypeVar("RWLockT", bound=RWLockBase[Any])
SemaphoreT = TypeVar("SemaphoreT", bound=SemaphoreBase)
GroupT = TypeVar("GroupT", bound=LockGroupBase)
DecoratorT = TypeVar("DecoratorT")
SkippingT = TypeVar("SkippingT")


class LocksBase(opening.Opened, Generic[LockT, RWLockT, SemaphoreT, GroupT, DecoratorT, SkippingT]):
    """A client of one engine, with the classes of its face."""

    _lock_type: type[LockT]
    _rwlock_type: type[RWLockT]
    _semaphore_type: type[SemaphoreT]
    _group_type: type[GroupT]

    @staticmethod
    @abstractmethod
    def _decorate(given: Decoration) -> SkippingT:
        """Return the decorator of this face."""
        raise AssertionError

    @property
    def backend(self) -> str:
        """The engine's name."""
        return self._client.backend.name

    @property
    def place(self) -> str:
        """Where the locks live, without any password: `file:/var/lib/jobs`."""
        return self._events.way.place

    @property
    def namespace(self) -> str:
        """Locks of different namespaces never meet."""
        return self._client.prefix[:-1]

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the engine can promise."""
        return self._client.backend.capabilities

    def lock(  # noqa: PLR0913  # the options of a lock, each by name
        self,
        name: str,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
        *,
        auto_renew: bool = True,
        max_hold: validation.Duration | None = None,
        fair: bool = False,
        owner: str | None = None,
        on_lost: OnLost = None,
    ) -> LockT:
        """Make a re-entrant lock. `timeout`: how long to wait; `ttl`: its life without renewal."""
        client = self._client
        options = make_options(
            client, ttl=ttl, auto_renew=auto_renew, max_hold=max_hold, fair=fair, owner=owner
        )
        return self._lock_type(client, name, options, timeout, on_lost)

    def rwlock(
        self,
        name: str,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
        *,
        auto_renew: bool = True,
        max_hold: validation.Duration | None = None,
        on_lost: OnLost = None,
    ) -> RWLockT:
        """Make a lock for many readers or one writer: its `.read()` and `.write()` are locks."""
        client = self._client

        def half(mode: Mode) -> LockBase:
            options = make_options(
                client,
                ttl=ttl,
                auto_renew=auto_renew,
                max_hold=max_hold,
                mode=mode,
                hand_over=False,
            )
            return self._lock_type(client, name, options, timeout, on_lost)

        return self._rwlock_type(half(Mode.SHARED), half(Mode.EXCLUSIVE))

    def semaphore(  # noqa: PLR0913  # as lock()
        self,
        name: str,
        permits: int,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
        *,
        auto_renew: bool = True,
        max_hold: validation.Duration | None = None,
        fair: bool = False,
        on_lost: OnLost = None,
    ) -> SemaphoreT:
        """Make a semaphore: at most `permits` holders at a time, each with its own lease."""
        client = self._client
        options = make_options(
            client,
            ttl=ttl,
            auto_renew=auto_renew,
            max_hold=max_hold,
            fair=fair,
            mode=Mode.PERMIT,
            permits=validation.permits(permits),
        )
        return self._semaphore_type(client, name, options, timeout, on_lost)

    def all(
        self,
        *names: str,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
        auto_renew: bool = True,
        max_hold: validation.Duration | None = None,
    ) -> GroupT:
        """Take several locks at once: all or none, and two callers never deadlock."""
        client = self._client
        options = make_options(client, ttl=ttl, auto_renew=auto_renew, max_hold=max_hold)
        parts = [(client, client.request(validation.name(name), options)) for name in names]
        return self._group_type(parts, timeout)

    @overload
    def locked(
        self,
        template: str,
        *,
        timeout: validation.Duration | None = None,
        on_busy: Literal["skip"],
        **options: Unpack[LockKeywords],
    ) -> SkippingT: ...

    @overload
    def locked(
        self,
        template: str,
        *,
        timeout: validation.Duration | None = None,
        on_busy: Literal["raise", "wait"] = "raise",
        **options: Unpack[LockKeywords],
    ) -> DecoratorT: ...

    def locked(  # noqa: PLR0913  # as lock()
        self,
        template: str,
        *,
        timeout: validation.Duration | None = None,
        on_busy: OnBusy = "raise",
        ttl: validation.Duration | None = None,
        auto_renew: bool = True,
        max_hold: validation.Duration | None = None,
        fair: bool = False,
        owner: str | None = None,
        on_lost: OnLost = None,
    ) -> SkippingT | DecoratorT:
        """Run a function under a lock named after its arguments: "user:{user_id}"."""
        options = LockKeywords(
            ttl=ttl,
            auto_renew=auto_renew,
            max_hold=max_hold,
            fair=fair,
            owner=owner,
            on_lost=on_lost,
        )
        given = Decoration(lambda: self, template, on_busy, timeout, options)
        self.lock(template, timeout=given.timeout, **options)  # wrong options are refused now
        return self._decorate(given)

    def on_event(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends this."""
        return self._events.add(listener)

    def __repr__(self) -> str:
        closed = ", closed" * bool(self._client.closed)
        where = f"{self.place}, namespace {self.namespace!r}{closed}"
        return f"<{type(self).__module__}.{type(self).__name__} at {where}>"


class Decoration:
    """What `locked(...)` was given, and what both faces make of it."""

    __slots__ = ("locks", "options", "skips", "template", "timeout")

    def __init__(
        self,
        locks: Callable[[], Any],
        template: str,
        on_busy: OnBusy,
        timeout: validation.Duration | None,
        options: LockKeywords,
    ):
        from locknut.faces import templates  # brings `inspect`, which few programs need

        self.locks = locks
        """Asked anew at every call."""
        self.template = template
        self.timeout = templates.policy(template, on_busy, timeout)
        self.skips = on_busy == "skip"
        self.options = options

    def namer(self, function: Callable[..., Any], *, coroutine: bool) -> Callable[..., str]:
        """Return what makes the lock's name from the arguments of a call, if it can be locked."""
        from locknut.faces import templates  # as above

        templates.refuse(function, coroutine=coroutine)
        return templates.namer(self.template, function)

    def skipped(self, lock: LockBase, function: Callable[..., Any]) -> None:
        """Tell the listeners and the log that the function was not run."""
        client = lock._client
        if client.events.wants("skipped"):
            why = f"{function.__qualname__} was not run: busy"
            client.emit_event(Event("skipped", lock.name, client.backend.name, reason=why))
