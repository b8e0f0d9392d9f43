"""`redis.lock.Lock`, kept by Locknut: change the import, and leave the rest as it is.

    from locknut.compat.redis_py import Lock          # was: from redis.lock import Lock
    with Lock(client, "report", timeout=30, blocking_timeout=5) as lock:
        write(lock.lease.fence)                       # what redis-py does not have

Or for all locks of one call: `client.lock("report", timeout=30, lock_class=Lock)`. Such locks and
those of an unchanged redis-py exclude each other, in both directions. What is better and what is
not the same is in docs/migrating/redis-py.md.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from redis.exceptions import LockError

from locknut.compat.redis_py.client_locks import blocking_client
from locknut.compat.redis_py.lock_terms import LockTerms, as_redis
from locknut.core import inspecting, renewing
from locknut.core.acquiring import acquire
from locknut.core.values import LockInfo
from locknut.errors import LeaseLost, LocknutError, NotHeld
from locknut.runtimes.threads import run, run_void

__all__ = ["Lock"]


class Lock(LockTerms):
    """A lock with the signature and the meaning of `redis.lock.Lock`. It is not re-entrant."""

    def acquire(
        self,
        sleep: float | None = None,  # noqa: ARG002  # waiters are woken
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | None = None,
    ) -> bool:
        """Return True once the lock is acquired, or False if the time expired first."""
        wait = self._wait(blocking, blocking_timeout, token)
        client = blocking_client(self._pool)
        until, acquired = client.runtime.now() + wait, list[Any]()
        try:
            run_void(
                acquire(client, self._request(client), self._new_caller(client), until, acquired)
            )
            if acquired:
                self._keep(acquired[0])
        except BaseException as error:
            for lease in acquired:
                with suppress(LocknutError):
                    lease.release()
            if isinstance(error, LocknutError):
                raise as_redis(error) from error
            raise
        return bool(acquired)

    def release(self) -> None:
        """Release the lock; raises LockError, or LockNotOwnedError if it was lost meanwhile."""
        lease = self._taken()
        try:
            lease.release()
        except (LeaseLost, NotHeld) as error:
            raise self._not_owned("release") from error
        except LocknutError as error:
            raise as_redis(error) from error
        finally:
            self._forget()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Add to the time that the hold lasts, or with `replace_ttl` set it."""
        return self._last_for(self._extended(additional_time, replace_ttl), "extend")

    def reacquire(self) -> Literal[True]:
        """Let the hold last for its whole timeout from now on."""
        self._lasting("reacquire")
        return self._last_for(float(self.timeout or 0), "reacquire")

    def _last_for(self, seconds: float, verb: str) -> Literal[True]:
        lease = self.lease
        try:
            run(renewing.last_for(lease._client, lease, seconds))
        except (LeaseLost, NotHeld) as error:
            raise self._not_owned(verb) from error
        except LocknutError as error:
            raise as_redis(error) from error
        return True

    def locked(self) -> bool:
        """Return whether anybody holds the lock."""
        return self._info().locked

    def owned(self) -> bool:
        """Return whether this lock holds it, by the server's word."""
        return self.lease is not None and self._is_ours(self._info())

    def _info(self) -> LockInfo:
        try:
            return run(inspecting.info(blocking_client(self._pool), self._key))
        except LocknutError as error:
            raise as_redis(error) from error

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise self._not_acquired()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            self._warn()
