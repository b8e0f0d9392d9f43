"""Locks of aioredlock beside ours: one server by the layout of redis-py, on one Python still.

It imports `distutils` and an aioredis of 2019, so it is run as a program of its own, with its
warnings switched off.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import locknut
from tests.migrating.peers import PATIENCE
from tests.servers.redis import RedisServer

# Not marked as one of Redis: what such a test skips fails a run in CI, and newer Pythons skip this.
pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="needs CPython 3.11: distutils")

PROGRAM = """
import asyncio, sys
from aioredlock import Aioredlock, LockError

async def main(url, name):
    manager = Aioredlock([url], retry_count=1)
    for order in sys.stdin:
        if order == "lock\\n":
            try:
                lock = await manager.lock(name, lock_timeout=120)
            except LockError:
                print("refused", flush=True)
            else:
                print("locked", flush=True)
        else:
            await manager.unlock(lock)
            print("unlocked", flush=True)
    await manager.destroy()

asyncio.run(main(*sys.argv[1:]))
"""


class Theirs:
    """The program, asked by a word and answering by one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, word: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def program(url: str, name: str) -> Iterator[Theirs]:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, url, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it logs every refusal with a traceback
        text=True,
    ) as process:
        try:
            yield Theirs(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)


def test_each_keeps_the_other_out(redis_server: RedisServer) -> None:
    name = f"report-{secrets.token_hex(4)}"
    with (
        locknut.connect(f"{redis_server.url}?layout=redis-py") as locks,
        program(redis_server.url, name) as theirs,
    ):
        ours = locks.lock(name, ttl=60)
        with ours:
            assert theirs.ask("lock") == "refused"
        assert theirs.ask("lock") == "locked"
        assert ours.acquire(blocking=False) is None
        assert theirs.ask("unlock") == "unlocked"
        with ours:
            pass
