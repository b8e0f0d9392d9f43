"""Least privilege in a foreign layout: what the documentation gives is enough, and not too much."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio
from tests.backends.redis.conftest import PATIENCE
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
PAGE = Path(__file__).parents[4] / "docs" / "engines" / "redis.md"
SENT = {"evalsha", "script|load", "subscribe", "unsubscribe", "scan", "info", "select"}
"""What is not called by a script."""
LAYOUTS = pytest.mark.parametrize("layout", ["redisson", "redis-py"])


def documented() -> list[str]:
    found = re.search(r"^ACL SETUSER sharing on >secret (.+)$", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1].split()


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    rules = " ".join(documented())
    with RedisServer(user="sharing", password="s3cret", rules=rules) as server:
        yield server


def test_nothing_is_too_much() -> None:
    folder = files("locknut.backends.redis.layouts.scripts")
    scripts = [each.read_text("utf-8") for each in folder.iterdir() if each.name.endswith(".lua")]
    called = set(re.findall(r"redis\.call\('(\w+)'", "".join(scripts)))
    assert {each[1:] for each in documented() if each.startswith("+")} == called | SENT


@LAYOUTS
def test_it_is_enough(guarded: RedisServer, layout: str) -> None:
    exercise(f"{guarded.url}?layout={layout}&namespace=shop", layout)


@LAYOUTS
def test_it_is_enough_on_redis_6(redis6_server: RedisServer, layout: str) -> None:
    redis6_server.ask("ACL", "SETUSER", "sharing", "on", ">s3cret", *documented())
    url = redis6_server.url.replace("redis://", "redis://sharing:s3cret@")
    exercise(f"{url}?layout={layout}&namespace=shop", layout)


def exercise(url: str, layout: str) -> None:
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        terms: dict[str, Any] = {"fair": True} if layout == "redisson" else {}
        with locks.lock("x", **terms) as lease, locks.lock("y", owner="me"):
            lease.renew()
            assert others.lock("x", **terms).acquire(timeout=0.1) is None
            assert others.lock("x").acquire(timeout=0.1) is None
            assert [each.name for each in others.list()] == ["x", "y"]
        detached = locks.lock("x").acquire()
        assert detached is not None
        others.attach(detached.detach()).release()
        broken = locks.lock("x").acquire()
        assert broken is not None
        assert others.force_release("x", reason="stuck")
        with pytest.raises(locknut.LeaseLost, match="broken: stuck"):
            broken.renew()


SIGNAL = ["~lock-signal:*", "+pexpire"]


@pytest.mark.parametrize(
    ("more", "denied"), [(SIGNAL, False), (SIGNAL[:1], True), (SIGNAL[1:], True)]
)
def test_the_signal_of_python_redis_lock_needs_two_more(
    guarded: RedisServer, more: list[str], denied: bool
) -> None:
    assert f"`{' '.join(SIGNAL)}`" in PAGE.read_text()
    rules = [each.replace("shop:", "lock:") for each in documented()]
    guarded.ask("ACL", "SETUSER", "few", "reset", "on", ">s3cret", *rules, *more)
    guarded.ask("ACL", "LOG", "RESET")
    url = guarded.url.replace("sharing:", "few:") + "?layout=redis-py&namespace=lock"
    with locknut.connect(url) as locks:
        with locks.lock("x", ttl=20):
            pass
        assert not locks.info("x").locked, "it is given back all the same"
    assert bool(guarded.ask("ACL", "LOG")) is denied
    guarded.ask("ACL", "DELUSER", "few")
    guarded.flushall()


@LAYOUTS
def test_it_is_enough_on_a_loop(guarded: RedisServer, layout: str) -> None:
    async def story() -> None:
        url = f"{guarded.url}?layout={layout}&namespace=shop"
        async with aio.connect(url) as locks, aio.connect(url) as others:
            lease = await locks.lock("x").acquire()
            assert lease is not None
            waiter = asyncio.create_task(others.lock("x").acquire(timeout=PATIENCE))
            await asyncio.sleep(0.05)
            await lease.release()
            later = await waiter
            assert later is not None
            assert later.fence > lease.fence

    asyncio.run(story())
