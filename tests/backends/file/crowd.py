"""A process with few descriptors and many tasks that want one name: semaphore, fair or readers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

import locknut
import locknut.aio


async def main(url: str, kind: str, tasks: int) -> None:
    async with locknut.aio.connect(url) as locks:
        wanted: Callable[[], Any] = {
            "semaphore": lambda: locks.semaphore("api", 3),
            "fair": lambda: locks.lock("api", fair=True),
            "readers": lambda: locks.rwlock("api").read(),
        }[kind]
        order: list[int] = []
        first = locks.rwlock("api").write() if kind == "readers" else None
        ready = asyncio.Event()

        async def use(at: int) -> None:
            async with wanted():
                order.append(at)
                if kind == "readers":
                    if len(order) == tasks:
                        ready.set()  # all of them are in at once
                    await ready.wait()
                else:
                    await asyncio.sleep(0)

        async with first if first is not None else contextlib.nullcontext():
            crowd = [asyncio.create_task(use(at)) for at in range(tasks)]
            await asyncio.sleep(0.2)
        await asyncio.gather(*crowd)
        in_order = order == sorted(order)
        print(len(order), in_order, len(os.listdir("/proc/self/fd")))


if __name__ == "__main__":
    most = int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
