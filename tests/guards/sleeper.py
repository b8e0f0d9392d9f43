"""A holder that falls asleep between its read and its write.

Run as `python sleeper.py URL NAME COLOUR`. It says what it read, stops itself (SIGSTOP), and when
it is woken writes what it computed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import redis

import locknut
from locknut import aio
from locknut.guards.redis import RedisGuard
from locknut.guards.redis.aio import RedisGuard as LoopGuard

TTL = 2.0


def say(*words: object) -> None:
    print(*words, flush=True)


def blocking(url: str, name: str) -> None:
    client = redis.Redis.from_url(url)
    lease = locknut.connect(url).lock(name, ttl=TTL).acquire()
    assert lease is not None
    guard = RedisGuard(client, name).enter(lease)
    found = int(guard.run("GET", name))
    say("read", found)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        guard.run("SET", name, found + 1)
    except locknut.StaleFence:
        say("refused", lease.held)
    else:
        say("written", lease.held)


async def on_a_loop(url: str, name: str) -> None:
    client = redis.asyncio.Redis.from_url(url)
    lease = await aio.connect(url).lock(name, ttl=TTL).acquire()
    assert lease is not None
    guard = await LoopGuard(client, name).enter(lease)
    found = int(await guard.run("GET", name))
    say("read", found)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        await guard.run("SET", name, found + 1)
    except locknut.StaleFence:
        say("refused", lease.held)
    else:
        say("written", lease.held)


if __name__ == "__main__":
    if sys.argv[3] == "asyncio":
        asyncio.run(on_a_loop(*sys.argv[1:3]))
    else:
        blocking(*sys.argv[1:3])
