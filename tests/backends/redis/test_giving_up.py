"""Many give up in one moment: they learn who has the lock, and that costs the server little."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.redis.inspector import Inspector
from locknut.errors import AcquireTimeout
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.redis.conftest import engine, eventually
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("patient_callers")]
TASKS = 500


class Watched:
    """Counts how often somebody looks, and how many waiters it is told of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = self.waiters = 0
        seen = Inspector._seen

        def count(looking: Any, key: str, permits: bool, reply: Any) -> Any:
            found = seen(looking, key, permits, reply)
            self.asked += 1
            self.waiters += 0 if found is None else len(found.waiters)
            return found

        monkeypatch.setattr(Inspector, "_seen", count)


def test_many_tasks(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    async def give_up(locks: aio.Locks) -> str:
        with pytest.raises(AcquireTimeout) as caught:
            async with locks.semaphore("x", permits=1, timeout=4.0):
                pass
        return str(caught.value)

    async def story() -> list[str]:
        first, second = (aio.connect(server.url, namespace="t", label="me") for _ in range(2))
        async with first as holder, second as locks, holder.semaphore("x", permits=1):
            return list(await asyncio.gather(*(give_up(locks) for _ in range(TASKS))))

    told = asyncio.run(story())
    assert any("held by me" in each for each in told)
    assert watched.asked < TASKS / 5  # two answers to each question: of the lock, and the permits
    assert watched.waiters == 0


def test_threads(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    told: list[str] = []

    def give_up(locks: locknut.Locks) -> None:
        with pytest.raises(AcquireTimeout) as caught, locks.lock("x", fair=True, timeout=2):
            pass
        told.append(str(caught.value))

    first = locknut.connect(server.url, namespace="t", label="me")
    with first, first.lock("x"), locknut.connect(server.url, namespace="t") as locks:
        threads = [threading.Thread(target=give_up, args=(locks,)) for _ in range(20)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
    assert len(told) == 20
    assert any("held by me" in each for each in told)
    assert watched.waiters == 0


def test_the_port_tells_of_holders_alone(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as holder, holder.lock("x"):
        backend = engine(server).blocking(ThreadRuntime())
        waiter = threading.Thread(target=_wait, args=(server.url,))
        waiter.start()
        eventually(lambda: holder.info("x").waiters, "nobody waits")
        (info,) = run(backend.inspect_holders("t:x"))
        assert len(info.holders) == 1
        assert info.waiters == ()
        run(backend.close())
    waiter.join(30)


def _wait(url: str) -> None:
    with locknut.connect(url, namespace="t") as locks:
        locks.lock("x").acquire(timeout=20)
        locks.lock("x").release()
