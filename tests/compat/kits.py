"""redis-py's own Lock and ours, blocking and asyncio, as four kits with one way to use them."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from itertools import count
from typing import Any, Self

import redis
import redis.asyncio
from redis.asyncio.lock import Lock as TheirAsyncioLock
from redis.lock import Lock as TheirLock

from locknut.compat.redis_py import Lock as OurLock
from locknut.compat.redis_py.aio import Lock as OurAsyncioLock
from tests.servers.processes import PATIENCE
from tests.servers.redis import RedisServer

KINDS: dict[str, Any] = {
    "redis-py": TheirLock,
    "redis-py-asyncio": TheirAsyncioLock,
    "locknut": OurLock,
    "locknut-asyncio": OurAsyncioLock,
}
_numbers = count(1)


class Loop:
    """A loop on a thread of its own, whose coroutines are waited for here."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def close(self) -> None:
        """As `asyncio.run` does."""
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class Awaited:
    """An asyncio Lock, used as a blocking one is."""

    def __init__(self, lock: Any, loop: Loop):
        self._lock = lock
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._lock, name)
        if not inspect.ismethod(found):
            return found
        return lambda *args, **terms: self._loop.run(_awaited(found, *args, **terms))

    def __enter__(self) -> Self:
        assert self._loop.run(self._lock.__aenter__()) is self._lock
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.run(self._lock.__aexit__(*raised))


async def _awaited(method: Any, *args: Any, **terms: Any) -> Any:
    """redis-py's `extend` is a plain function that returns something to await, or raises."""
    found = method(*args, **terms)
    return await found if inspect.isawaitable(found) else found


class Kit:
    """One kind of Lock with its client."""

    def __init__(self, kind: str, server: RedisServer):
        self.kind = kind
        self.ours = kind.startswith("locknut")
        self.lock_class = KINDS[kind]
        self.server = server
        self.loop = Loop() if kind.endswith("asyncio") else None
        where: Any = {"host": server.host, "port": server.port}
        self.client: Any = redis.asyncio.Redis(**where) if self.loop else redis.Redis(**where)
        self._plain = redis.Redis(**where)
        self.name = f"{kind}:{next(_numbers)}"

    def lock(self, *args: Any, **terms: Any) -> Any:
        """A lock of this kind; they all have one name."""
        if self.loop is None:
            return self.lock_class(self.client, self.name, *args, **terms)
        # On the thread that uses it: redis-py knows no other.
        return Awaited(self.loop.run(self._made(*args, **terms)), self.loop)

    async def _made(self, *args: Any, **terms: Any) -> Any:
        return self.lock_class(self.client, self.name, *args, **terms)

    def token(self, lock: Any) -> Any:
        """What proves that the key is this lock's."""

        async def there() -> Any:
            return lock.local.token

        return lock.local.token if self.loop is None else self.loop.run(there())

    def others(self, **terms: Any) -> Any:
        """A lock of the same name from the other library."""
        return (TheirLock if self.ours else OurLock)(self._plain, self.name, **terms)

    def detached(self, lock: Any) -> Any:
        """The text of a hold that goes on without its process."""
        text = lock.lease.detach()
        return text if self.loop is None else self.loop.run(text)

    def left(self) -> int:
        """How many milliseconds the key lasts; -1 for ever, -2 there is none."""
        found = self.server.ask("PTTL", self.name)
        assert isinstance(found, int)
        return found

    def close(self) -> None:
        if self.loop is not None:
            self.loop.run(self.client.aclose())
            self.loop.close()
        else:
            self.client.close()
        self._plain.close()
