"""Random programs on the memory engine: each circle has one victim, and without circles nobody is.

Waiters look all the time here, so whatever could be taken for a deadlock is looked at many times:
holds that change hands inside a process, claims that are left to the next, timeouts, readers,
permits, programs that take part and programs that do not.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from locknut import DeadlockDetected, aio
from locknut.core import lookout

pytestmark = pytest.mark.memory
NAMES = "abcdef"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"AFTER": 0.01, "AGAIN": 0.005, "EVERY": 0.01, "FRESH": 0.0}.items():
        monkeypatch.setattr(lookout, name, seconds)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 60))


def kind_of(locks: aio.Locks, name: str, chance: random.Random, **options: Any) -> aio.Lock:
    """The same name is always the same kind of thing."""
    if name in "ef":
        return locks.semaphore(name, 2, **options)
    if name in "cd":
        lock = locks.rwlock(name, **options)
        return lock.read() if chance.random() < 0.6 else lock.write()
    return locks.lock(name, **options)


async def in_order(locks: aio.Locks, seed: int) -> int:
    """Take some locks in the order of their names, several times: nobody can deadlock."""
    chance, held = random.Random(seed), 0
    for _ in range(8):
        leases: list[Any] = []
        for name in sorted(chance.sample(NAMES, chance.randint(1, 3))):
            timeout = chance.choice((None, None, 0.02))
            lease = await kind_of(locks, name, chance, timeout=timeout).acquire()
            if lease is not None:
                leases.append(lease)
            await asyncio.sleep(chance.choice((0, 0, 0.003)))
        held += len(leases)
        for lease in chance.sample(leases, len(leases)):  # not always the last one first
            await lease.release()
    return held


@pytest.mark.parametrize("seed", range(4))
def test_in_one_order_nobody_gives_way(seed: int) -> None:
    async def main() -> None:
        settings: list[Any] = [{"deadlocks": "raise"}, {"deadlocks": "raise"}, {}, {}]
        clients = [aio.connect("memory:random", **each) for each in settings]
        works = [in_order(clients[at % 4], 1000 * seed + at) for at in range(16)]
        held = await asyncio.gather(*works)
        assert sum(held) > 100
        for each in clients:
            assert await each.list() == []
            await each.close()

    run(main)


async def ring(locks: list[aio.Locks], mark: str, size: int, chance: random.Random) -> int:
    """As many tasks as `size` hold one each and wait for the next one's; how many gave way."""
    meet, kinds = asyncio.Barrier(size), [chance.choice("lws") for _ in range(size)]

    def part(client: aio.Locks, at: int) -> aio.Lock:
        name = f"{mark}{at % size}"
        if kinds[at % size] == "s":
            return client.semaphore(name, 1)
        return client.rwlock(name).write() if kinds[at % size] == "w" else client.lock(name)

    async def nest(at: int) -> int:
        client = chance.choice(locks)
        async with part(client, at):
            await meet.wait()
            await asyncio.sleep(chance.choice((0, 0.01, 0.03)))
            try:
                async with part(client, at + 1):
                    return 0
            except DeadlockDetected as error:
                assert len(error.cycle) == size  # noqa: PT017  # it is counted as well
                return 1

    return sum(await asyncio.gather(*map(nest, range(size))))


@pytest.mark.parametrize("seed", range(4))
def test_of_each_circle_one_gives_way(seed: int) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        clients = [aio.connect("memory:random", deadlocks="raise") for _ in range(3)]
        rings = [
            ring(clients, f"r{at}-", chance.randint(2, 5), random.Random(seed * 100 + at))
            for at in range(6)
        ]
        bystanders = [in_order(clients[at % 3], seed * 1000 + at) for at in range(6)]
        found = await asyncio.gather(*rings, *bystanders)
        assert found[:6] == [1] * 6
        for each in clients:
            assert await each.list() == []
            await each.close()

    run(main)
