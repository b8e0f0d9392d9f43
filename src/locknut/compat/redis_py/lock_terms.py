"""What a Lock with redis-py's signature is in either colour, apart from waiting.

Its arguments, the hold of each thread, and what redis-py would raise.
"""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from redis import exceptions

from locknut.compat.redis_py.client_locks import pool_of
from locknut.core import validation
from locknut.core.callers import Caller
from locknut.core.durations import spell
from locknut.core.validation import FOREVER
from locknut.errors import (
    BackendError,
    BackendUnavailable,
    ConfigurationError,
    LocknutError,
    Unsupported,
)
from locknut.faces.options import make_options

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.lock_request import LockRequest
    from locknut.core.values import LockInfo

SHORTEST: Final = 0.1
LONGEST: Final = 30 * 86400.0

log = logging.getLogger("locknut.redis")


class LockTerms:
    """The arguments of redis-py's Lock, with their meaning there."""

    def __init__(  # noqa: PLR0913, PLR0917  # redis-py's own signature
        self,
        redis: Any,
        name: str | bytes | memoryview,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ):
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self._pool = pool_of(redis)
        self._key = _text(name)
        _ttl(timeout)

    @property
    def lease(self) -> Any:
        """The hold as Locknut has it, with `fence`, `lost`, `on_lost` and `check()`; or None."""
        return getattr(self.local, "lease", None)

    def _request(self, client: Client) -> LockRequest:
        """Taken anew for each acquire: the attributes may have been changed, as in redis-py."""
        ttl = _ttl(self.timeout)
        options = make_options(client, ttl=ttl, auto_renew=ttl is None, hand_over=False)
        return client.request(self._key, options)

    def _wait(self, blocking: bool | None, blocking_timeout: float | None, token: object) -> float:
        if token is not None:
            message = (
                "a token of your own cannot be used: each hold gets one that no other ever has; "
                "to hand a hold to another process, use lock.lease.detach() and attach()"
            )
            raise Unsupported(message, key=self._key, backend="redis")
        if not (self.blocking if blocking is None else blocking):
            return 0.0
        longest = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        return (
            FOREVER
            if longest is None
            else max(0.0, validation._number(longest, "blocking_timeout"))
        )

    @staticmethod
    def _new_caller(client: Client) -> Caller:
        """A holder for this acquire alone: redis-py's Lock is not re-entrant."""
        caller = client.runtime.caller()
        return Caller(caller.who, caller.task)

    def _keep(self, lease: Any) -> None:
        """This thread has it. With a timeout nobody needs to: it lasts even if all let go of it."""
        self.local.lease, self.local.token = lease, lease._hold.claim.id.encode()
        if not lease._hold.options.auto_renew:
            lease._hold.lease = lambda: lease

    def _taken(self) -> Any:
        """What this thread has and is about to release."""
        lease = self.lease
        if lease is None:
            raise self._error("Cannot release a lock that's not owned or is already unlocked.")
        return lease

    def _forget(self) -> None:
        self.local.lease = self.local.token = None

    def _extended(self, additional_time: float, replace_ttl: bool) -> float:
        """How long the hold is to last from now on."""
        lease = self._lasting("extend")
        seconds = validation._number(additional_time, "additional_time")
        if not replace_ttl:
            hold = lease._hold
            seconds += max(0.0, hold.anchor + hold.ttl - lease._client.runtime.now())
        if not 0 < seconds <= LONGEST:
            message = (
                f"the hold would last for {seconds:g} s; at most {spell(LONGEST)} are possible"
            )
            raise ConfigurationError(message, key=self._key, backend="redis")
        return seconds

    def _lasting(self, verb: str) -> Any:
        """The lease, if there is one whose time can be set."""
        lease = self.lease
        if lease is None:
            raise self._error(f"Cannot {verb} an unlocked lock")
        if not self.timeout or lease._hold.options.auto_renew:
            raise self._error(f"Cannot {verb} a lock with no timeout")
        return lease

    def _is_ours(self, info: LockInfo) -> bool:
        lease = self.lease
        return lease is not None and any(each.raw == lease._hold.raw for each in info.holders)

    def _error(self, message: str) -> exceptions.LockError:
        return exceptions.LockError(message, lock_name=self._key)

    def _not_owned(self, verb: str) -> exceptions.LockNotOwnedError:
        message = f"Cannot {verb} a lock that's no longer owned"
        return exceptions.LockNotOwnedError(message, lock_name=self._key)

    def _not_acquired(self) -> exceptions.LockError:
        return self._error("Unable to acquire lock within the time specified")

    @staticmethod
    def _warn() -> None:
        log.warning("Lock was unlocked or no longer owned when exiting context manager.")


def as_redis(error: LocknutError) -> Exception:
    """What redis-py raises in this case; what it does not know stays as it is."""
    if isinstance(error, BackendUnavailable):
        return exceptions.ConnectionError(str(error))
    if isinstance(error, BackendError):
        return exceptions.ResponseError(str(error))
    return error


def _text(name: str | bytes | memoryview) -> str:
    try:
        return validation.name(name if isinstance(name, str) else bytes(name).decode())
    except UnicodeDecodeError:
        message = f"name must be UTF-8, got {bytes(name)!r}"  # type: ignore[arg-type]  # no str here
        raise ConfigurationError(message, backend="redis") from None


def _ttl(timeout: float | None) -> float | None:
    """None and 0 are no timeout, as in redis-py: such a hold is renewed as long as we live."""
    if not timeout:
        return None
    seconds = validation.seconds(timeout, "timeout")
    if not SHORTEST <= seconds <= LONGEST:
        limits = f"{spell(SHORTEST)} and {spell(LONGEST)}"
        raise ConfigurationError(f"timeout must be between {limits}, got {timeout!r}")
    return seconds
