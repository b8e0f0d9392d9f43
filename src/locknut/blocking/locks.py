"""The blocking client of one engine: what `connect` returns, and what makes locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Self, Unpack, overload

from locknut import opening, redlocks
from locknut.blocking.decorator import Decorator, SkippingDecorator, decorator
from locknut.blocking.lease import Lease
from locknut.blocking.lock_group import Together
from locknut.blocking.primitives import Lock, RWLock, Semaphore
from locknut.core import acquiring_all, closing, detaching, inspecting, pinging, validation
from locknut.core.ports import Backend, Engine, Runtime
from locknut.core.values import Capability, Event, LockInfo, Mode, Ping
from locknut.faces import misuse
from locknut.faces.options import LockOptions, OnBusy, OnLost, make_terms
from locknut.runtimes.threads import ThreadRuntime, run


@misuse.answering
@misuse.for_with
class Locks(opening.Opened):
    """A client of one engine. It makes locks, and renews the leases on them until `close()`."""

    _lease_type = Lease

    def __init__(
        self,
        engine: Engine,
        settings: opening.Settings | None = None,
        *,
        runtime: Runtime | None = None,
    ):
        super().__init__(engine, settings, runtime or ThreadRuntime())

    @staticmethod
    def _backend_of(engine: Engine, runtime: Runtime) -> Backend:
        return engine.blocking(runtime)

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
    ) -> Lock:
        """Make a re-entrant lock. `timeout`: how long to wait; `ttl`: its life without renewal."""
        terms = make_terms(
            self._client,
            ttl=ttl,
            auto_renew=auto_renew,
            max_hold=max_hold,
            fair=fair,
            owner=owner,
        )
        return Lock(self._client, name, terms, timeout, on_lost)

    def rwlock(
        self,
        name: str,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
        *,
        auto_renew: bool = True,
        max_hold: validation.Duration | None = None,
        on_lost: OnLost = None,
    ) -> RWLock:
        """Make a lock for many readers or one writer: its `.read()` and `.write()` are locks."""

        def half(mode: Mode) -> Lock:
            terms = make_terms(
                self._client,
                ttl=ttl,
                auto_renew=auto_renew,
                max_hold=max_hold,
                mode=mode,
                hand_over=False,
            )
            return Lock(self._client, name, terms, timeout, on_lost)

        return RWLock(half(Mode.SHARED), half(Mode.EXCLUSIVE))

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
    ) -> Semaphore:
        """Make a semaphore: at most `permits` holders at a time, each with its own lease."""
        terms = make_terms(
            self._client,
            ttl=ttl,
            auto_renew=auto_renew,
            max_hold=max_hold,
            fair=fair,
            mode=Mode.PERMIT,
            permits=validation.permits(permits),
        )
        return Semaphore(self._client, name, terms, timeout, on_lost)

    def all(
        self,
        *names: str,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
        auto_renew: bool = True,
        max_hold: validation.Duration | None = None,
    ) -> Together:
        """Take several locks at once: all or none, and two callers never deadlock."""
        terms = make_terms(self._client, ttl=ttl, auto_renew=auto_renew, max_hold=max_hold)
        parts = [
            (self._client, self._client.request(validation.name(name), terms)) for name in names
        ]
        return Together(parts, timeout)

    @overload
    def locked(
        self,
        template: str,
        *,
        timeout: validation.Duration | None = None,
        on_busy: Literal["skip"],
        **options: Unpack[LockOptions],
    ) -> SkippingDecorator: ...

    @overload
    def locked(
        self,
        template: str,
        *,
        timeout: validation.Duration | None = None,
        on_busy: Literal["raise", "wait"] = "raise",
        **options: Unpack[LockOptions],
    ) -> Decorator: ...

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
    ) -> SkippingDecorator:
        """Run a function under a lock named after its arguments: "user:{user_id}"."""
        from locknut.faces import templates  # brings `inspect`, which few programs need

        options = LockOptions(
            ttl=ttl,
            auto_renew=auto_renew,
            max_hold=max_hold,
            fair=fair,
            owner=owner,
            on_lost=on_lost,
        )
        patience = templates.policy(template, on_busy, timeout)
        self.lock(template, timeout=patience, **options)  # wrong options are refused now
        return decorator(lambda: self, template, on_busy, patience, options)

    def info(self, name: str) -> LockInfo:
        """Return who holds the lock of this name and who waits for it."""
        return run(inspecting.info(self._client, validation.name(name)))

    def list(self, pattern: str | None = None) -> list[LockInfo]:
        """Return the locks that are held or waited for, or those that match "order:*"."""
        return run(inspecting.listing(self._client, pattern))

    def force_release(self, name: str, fence: int | None = None, *, reason: str = "") -> bool:
        """Break a hold; with `fence`, only that one. Return False if nobody held the lock.

        `reason` goes into the event and the log; the holder is told it too, with our label.
        """
        return run(inspecting.force_release(self._client, validation.name(name), fence, reason))

    def ping(self, timeout: validation.Duration = 5.0) -> Ping:
        """Check that the engine works: take a lock and release it within `timeout`.

        Raises BackendUnavailable or another BackendError that says what is wrong. The lock's name
        is `locknut.ping`; probes that come at the same time do not wait for each other.
        """
        return Ping(self.backend, self.place, run(pinging.ping(self._client, timeout)))

    def attach(self, text: str) -> Lease:
        """Take over a hold that was detached elsewhere. Only the first to attach it succeeds."""
        acquired: list[Any] = []
        try:
            return run(detaching.attach(self._client, text, acquired))  # type: ignore[return-value]  # as acquire
        except BaseException:
            run(acquiring_all.roll_back(acquired))
            raise

    def on_event(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends this."""
        return self._events.add(listener)

    def close(self) -> None:
        """Release all leases, wake all waiters with an error, and close the connections."""
        run(closing.close(self._client))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = (
            f"{self.place}, namespace {self.namespace!r}{', closed' * bool(self._client.closed)}"
        )
        return f"<{type(self).__module__}.{type(self).__name__} at {where}>"


@misuse.answered
def connect(
    url: str | Any | None = None,
    *,
    namespace: str | None = None,
    label: str = "",
    require: Iterable[str] = (),
    cohort: int = 16,
    id: str | None = None,  # noqa: A002  # the option's own name
) -> Locks:
    """Return a client of the engine at `url` (default: $LOCKNUT_URL, else `file:`).

    In place of a URL a client of the engine's driver can be given, `redis.Redis(...)` say: its
    settings are used, its connections are not.
    """
    settings = opening.Settings(namespace, label, validation.required(require), cohort, id)
    return Locks(*opening.open_url(url, settings))


@misuse.answered
def redlock(  # noqa: PLR0913  # each by name
    urls: Iterable[str],
    *,
    max_ttl: validation.Duration = 60.0,
    node_timeout: validation.Duration = 0.3,
    durable: bool = False,
    failover: bool = False,
    set_name: str = "",
    namespace: str | None = None,
    label: str = "",
    require: Iterable[str] = (),
    cohort: int = 16,
    id: str | None = None,  # noqa: A002  # the option's own name
) -> Locks:
    """Return a client of several independent Redis masters, each with a URL of its own.

    `max_ttl`: the longest ttl that any client uses. `durable`: the nodes never lose data.
    `failover`: a node may be a group behind Sentinels, and lose what the page of `redlock:` says.
    `set_name`: for clients that know the same nodes by different addresses.
    """
    settings = opening.Settings(namespace, label, validation.required(require), cohort, id)
    engine, origin = redlocks.engine(
        urls, max_ttl, node_timeout, durable=durable, failover=failover, set_name=set_name
    )
    return Locks(engine, settings._replace(origin=origin))
