"""A client process for tests that stop and kill it.

    python client.py URL threads|asyncio

It says "waiting", takes the lock "x" or waits for it, says its fence when it has it, holds until
its standard input ends, and then says what became of the lease.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import locknut
from locknut import aio

TTL = 2.5


def say(*words: object) -> None:
    print(*words, flush=True)


def outcome(lease: Any) -> str:
    """What the lease says of itself first, before anything else is asked."""
    return f"{lease.state.value} {lease.held}"


def threads(url: str) -> None:
    with locknut.connect(url, namespace="t") as locks:
        say("waiting")
        lease = locks.lock("x", ttl=TTL).acquire()
        assert lease is not None
        say(lease.fence)
        sys.stdin.readline()
        say(outcome(lease))
        try:
            lease.release()
        except locknut.LeaseLost:
            say("lost")
        else:
            say("released")


async def tasks(url: str) -> None:
    async with aio.connect(url, namespace="t") as locks:
        say("waiting")
        lease = await locks.lock("x", ttl=TTL).acquire()
        assert lease is not None
        say(lease.fence)
        await asyncio.to_thread(sys.stdin.readline)
        say(outcome(lease))
        try:
            await lease.release()
        except locknut.LeaseLost:
            say("lost")
        else:
            say("released")


if __name__ == "__main__":
    _, url, colour = sys.argv
    threads(url) if colour == "threads" else asyncio.run(tasks(url))
