"""The classic: a holder is stopped, its lease runs out, another goes on, and then it wakes up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

import locknut
from locknut.guards.redis import RedisGuard
from tests.servers.redis import RedisServer

SLEEPER = Path(__file__).with_name("sleeper.py")
SOURCES = Path(__file__).parents[2] / "src"

pytestmark = [pytest.mark.redis, pytest.mark.faults]


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_a_stopped_holder_that_writes_late(
    redis_server: RedisServer, colour: str, guarded: bool
) -> None:
    """Refused; and without the next one's guard it is not, so it is the guard that does it."""
    name = f"late:{colour}:{guarded}"
    url = redis_server.url
    with redis.Redis.from_url(url) as client, locknut.connect(url) as locks:
        client.set(name, 100)
        with subprocess.Popen(
            [sys.executable, str(SLEEPER), url, name, colour],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
        ) as sleeper:
            try:
                assert sleeper.stdout is not None
                assert sleeper.stdout.readline().split() == ["read", "100"]
                with locks.lock(name, timeout=30) as lease:  # once the sleeper's ttl has run out
                    if guarded:
                        mine = RedisGuard(client, name).enter(lease)
                        mine.run("SET", name, int(mine.run("GET", name)) + 10)
                    else:
                        client.set(name, int(client.get(name)) + 10)
                    sleeper.send_signal(signal.SIGCONT)
                    told = sleeper.stdout.readline().split()
                outcome = "refused" if guarded else "written"
                assert told == [outcome, "False"]
                found = client.get(name)
                assert found == (b"110" if guarded else b"101"), (
                    "the update of the next one is lost"
                )
            finally:
                sleeper.kill()
