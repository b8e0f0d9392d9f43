"""`redis.asyncio.lock.Lock`, kept by Locknut: change the import, and leave the rest as it is.

    from locknut.compat.redis_py.aio import Lock      # was: from redis.asyncio.lock import Lock
    async with Lock(client, "report", timeout=30, blocking_timeout=5):
        ...

As in redis-py, what one task has acquired with a Lock any task of the thread may release with it.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from redis.exceptions import LockError

from locknut.compat.redis_py.client_locks import asyncio_client
from locknut.compat.redis_py.lock_terms import LockTerms, as_redis
from locknut.core import inspecting, renewing
from locknut.core.acquiring import acquire
from locknut.core.values import LockInfo
from locknut.errors import LeaseLost, LocknutError, NotHeld

__all__ = ["Lock"]


class Lock(LockTerms):
    """A lock with the signature and the meaning of `redis.asyncio.lock.Lock`. Not re-entrant."""

    async def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Return True once the lock is acquired, or False if the time expired first."""
        wait = self._wait(blocking, blocking_timeout, token)
        client = await asyncio_client(self._pool)
        until, acquired = client.runtime.now() + wait, list[Any]()
        try:
            caller = self._new_caller(client)
            await acquire(client, self._request(client), caller, until, acquired)
            if acquired:
                self._keep(acquired[0])
        except BaseException as error:
            for lease in acquired:
                with suppress(LocknutError):
                    await lease.release()
            if isinstance(error, LocknutError):
                raise as_redis(error) from error
            raise
        return bool(acquired)

    async def release(self) -> None:
        """Release the lock; raises LockError, or LockNotOwnedError if it was lost meanwhile."""
        lease = self._taken()
        try:
            await lease.release()
        except (LeaseLost, NotHeld) as error:
            raise self._not_owned("release") from error
        except LocknutError as error:
            raise as_redis(error) from error
        finally:
            self._forget()

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Add to the time that the hold lasts, or with `replace_ttl` set it."""
        return await self._last_for(self._extended(additional_time, replace_ttl), "extend")

    async def reacquire(self) -> Literal[True]:
        """Let the hold last for its whole timeout from now on."""
        self._lasting("reacquire")
        return await self._last_for(float(self.timeout or 0), "reacquire")

    async def _last_for(self, seconds: float, verb: str) -> Literal[True]:
        lease = self.lease
        try:
            await renewing.last_for(lease._client, lease, seconds)
        except (LeaseLost, NotHeld) as error:
            raise self._not_owned(verb) from error
        except LocknutError as error:
            raise as_redis(error) from error
        return True

    async def locked(self) -> bool:
        """Return whether anybody holds the lock."""
        return (await self._info()).locked

    async def owned(self) -> bool:
        """Return whether this lock holds it, by the server's word."""
        return self.lease is not None and self._is_ours(await self._info())

    async def _info(self) -> LockInfo:
        try:
            return await inspecting.info(await asyncio_client(self._pool), self._key)
        except LocknutError as error:
            raise as_redis(error) from error

    async def __aenter__(self) -> Self:
        if await self.acquire():
            return self
        raise self._not_acquired()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            self._warn()
