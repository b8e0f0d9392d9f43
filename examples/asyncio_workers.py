"""Thirty tasks call an API that allows three at a time; a cancelled one leaves no trace."""

from __future__ import annotations

import asyncio
import sys
import tempfile

import locknut.aio

LIMIT = 3
TASKS = 30


class Api:
    """Somebody else's service that counts how many call it at once."""

    def __init__(self) -> None:
        self.calls = self.now = self.most = 0

    async def call(self) -> None:
        """Take a moment."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        self.calls += 1


async def worker(locks: locknut.aio.Locks, api: Api) -> None:
    async with locks.semaphore("api", LIMIT):
        await api.call()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with locknut.aio.connect(f"file://{folder}") as locks:
            api = Api()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(worker(locks, api)) for _ in range(TASKS)]
                await asyncio.sleep(0)
                tasks[-1].cancel()
            info = await locks.info("api")
            print(f"{api.calls} calls, at most {api.most} at once, {len(info.holders)} left behind")
            if (api.calls, api.most, info.holders) != (TASKS - 1, LIMIT, ()):
                sys.exit("NOT proved")
    print(f"Proved: never more than {LIMIT} at once, and the cancelled task kept nothing.")


if __name__ == "__main__":
    asyncio.run(main())
