"""Errors that tell what to do: commands that work as they stand, readable times, who holds."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core import validation
from locknut.core.durations import spell
from locknut.faces.hints import Way, shown
from tests.contracts.sources import ROOT
from tests.servers.redis import RedisServer

SECRET = "hunter2"
ADVICE = "see who has it: "


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0004, "0.4 ms"),
        (0.01, "10 ms"),
        (0.9999, "1 s"),
        (2.24, "2.2 s"),
        (31, "31 s"),
        (90, "90 s"),
        (372, "6 min 12 s"),
        (3600, "60 min"),
        (7260, "2 h 1 min"),
        (86400 * 30, "30 days"),
        (3.1536e8, "10 years"),
        (float("inf"), "for ever"),
    ],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert spell(seconds) == text


def test_the_limits_of_a_ttl_are_readable(locks: locknut.Locks) -> None:
    with pytest.raises(locknut.ConfigurationError, match=r"between 10 ms and 10 years, got 0\.001"):
        locks.lock("x", ttl=0.001)


@pytest.mark.parametrize("timeout", [0.01, "10ms", timedelta(milliseconds=10)])
def test_a_timeout_is_told_as_a_duration(
    locks: locknut.Locks, url: str, timeout: validation.Duration
) -> None:
    with locknut.connect(url) as other, other.lock("x"):
        told = str(busy(locks.lock("x", timeout=timeout)))
    assert told.startswith("not acquired within 10 ms; held by")


def test_memory_has_no_command_to_copy(locks: locknut.Locks, url: str) -> None:
    with locknut.connect(url) as other, other.lock("x"):
        told = str(busy(locks.lock("x", timeout=0)))
    assert "locknut show" not in told
    assert f"{ADVICE}locks.info('x')" in told


def busy(lock: locknut.Lock) -> locknut.AcquireTimeout:
    with pytest.raises(locknut.AcquireTimeout) as caught:
        lock.__enter__()
    return caught.value


def pasted(error: BaseException, folder: Path) -> str:
    """What the command in an error says to a shell of somebody with another home."""
    command = str(error).partition(ADVICE)[2].rpartition(" [lock ")[0]
    words = shlex.split(command)
    assert words[0] == "locknut"
    home = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    command = command.replace("locknut", f"{sys.executable} -m locknut", 1)
    done = subprocess.run(
        ["bash", "-c", command], env=home, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.file
@pytest.mark.parametrize("name", ["plain", "it's $HOME; rm", "a\n'; echo INJECTED; '"])
@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_the_command_shows_the_holder(tmp_path: Path, name: str, colour: str) -> None:
    folder = tmp_path / "a b%c"
    url = f"file://{folder}".replace("%", "%25")
    with locknut.connect(url, namespace="shop") as holder, holder.lock(name):
        error = asyncio.run(_refused(url, name)) if colour == "asyncio" else _busy(url, name)
        told = pasted(error, tmp_path)
    assert f":{os.getpid()}" in told
    assert f"in file:{folder}" in told
    assert "INJECTED" not in told.replace("echo INJECTED", "")


def _busy(url: str, name: str) -> locknut.AcquireTimeout:
    with locknut.connect(url, namespace="shop") as locks:
        return busy(locks.lock(name, timeout=0))


async def _refused(url: str, name: str) -> locknut.AcquireTimeout:
    async with aio.connect(url, namespace="shop") as locks:
        with pytest.raises(locknut.AcquireTimeout) as caught:
            await locks.lock(name, timeout=0).__aenter__()
    return caught.value


@pytest.mark.file
def test_the_default_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`file:` would lead somebody else, root's cron for one, to another directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with locknut.connect() as holder, locknut.connect() as locks, holder.lock("x"):
        command = str(busy(locks.lock("x", timeout=0))).partition(ADVICE)[2]
    assert command.startswith(f"locknut show x -u file:{tmp_path}/locknut [")


@pytest.mark.parametrize(
    "url",
    [
        f"redis://me:{SECRET}@host/0",
        f"redis://:{SECRET}@host/0",
        f"zookeeper://host?auth=digest:me:{SECRET}",
        f"rediss://host?ssl_password={SECRET}",
    ],
)
def test_a_url_that_may_hold_a_password_is_not_shown(url: str) -> None:
    assert shown(url) is None
    told = Way("redis:host:6379/0", shown(url), "shop").look("x")
    assert told == (
        "see who has it, with the URL of redis:host:6379/0 in LOCKNUT_URL: "
        "locknut show x --namespace shop"
    )


@pytest.mark.parametrize(
    "url", ["redis://h:1/2", "redlock://h1,h2,h3?max_ttl=30", "zookeeper://h1,h2/jobs?namespace=a"]
)
def test_other_urls_are_shown(url: str) -> None:
    assert shown(url) == url


@pytest.mark.redis
def test_a_password_of_a_real_server_is_not_told(redis_password_server: RedisServer) -> None:
    server = redis_password_server
    with locknut.connect(server.url) as holder, locknut.connect(server.url) as locks:
        held = holder.lock("hints").acquire()
        told = str(busy(locks.lock("hints", timeout=0)))
        assert held is not None
        held.release()
    assert "s3cret" not in told
    assert "in LOCKNUT_URL: locknut show hints [" in told


def in_a_thread(work: Callable[[], Any], name: str) -> Any:
    """What `work` gave back on a thread of that name, which lives on."""
    found: Queue[Any] = Queue()
    threading.Thread(target=_stay, args=(work, found), name=name, daemon=True).start()
    return found.get(timeout=20)


def _stay(work: Callable[[], Any], found: Queue[Any]) -> None:
    found.put(work())
    threading.Event().wait(60)


class TestNotHeld:
    """Whoever releases what it does not hold is told who holds it, and is never held up."""

    def test_another_thread_of_this_process(self, locks: locknut.Locks) -> None:
        lease = in_a_thread(lambda: locks.lock("x").acquire(), name="worker-7")
        with pytest.raises(locknut.NotHeld, match="held by thread worker-7 of this process"):
            locks.lock("x").release()
        lease.release()

    def test_another_client(self, locks: locknut.Locks, url: str) -> None:
        with locknut.connect(url, label="nightly") as other:
            held = other.lock("x").acquire()
            with pytest.raises(locknut.NotHeld, match=f"held by nightly at .*:{os.getpid()}"):
                locks.lock("x").release()
            assert held is not None

    def test_nobody(self, locks: locknut.Locks) -> None:
        with pytest.raises(locknut.NotHeld, match=ADVICE):
            locks.lock("x").release()

    def test_a_semaphore_of_the_same_name_is_something_else(self, locks: locknut.Locks) -> None:
        with locks.semaphore("x", 2), pytest.raises(locknut.NotHeld) as caught:
            locks.lock("x").release()
        assert "of this process" not in str(caught.value)

    def test_on_a_loop(self, url: str) -> None:
        async def steal(lock: aio.Lock) -> None:
            await lock.release()

        async def story() -> None:
            async with aio.connect(url) as locks, aio.connect(url, label="nightly") as other:
                lock = locks.lock("x")
                async with lock:
                    with pytest.raises(locknut.NotHeld, match="held by task boss of this process"):
                        await asyncio.create_task(steal(lock))
                async with other.lock("x"):
                    with pytest.raises(locknut.NotHeld, match="held by nightly at "):
                        await lock.release()

        async def main() -> None:
            await asyncio.create_task(story(), name="boss")

        asyncio.run(main())

    @pytest.mark.redis
    @pytest.mark.faults
    @pytest.mark.parametrize("colour", ["blocking", "asyncio"])
    def test_a_server_that_hangs_holds_nobody_up(self, colour: str) -> None:
        with RedisServer() as server:
            asked = asyncio.run(_hung(server)) if colour == "asyncio" else hung(server)
        assert asked < 1.0  # a command that nobody limits takes 2.5 s and is sent again


def hung(server: RedisServer) -> float:
    with locknut.connect(server.url) as locks:
        assert locks.list() == []  # connected
        server.stop()
        began = time.monotonic()
        with pytest.raises(locknut.NotHeld, match=ADVICE):
            locks.lock("x").release()
        took = time.monotonic() - began
        server.cont()
    return took


async def _hung(server: RedisServer) -> float:
    async with aio.connect(server.url) as locks:
        assert await locks.list() == []
        server.stop()
        began = time.monotonic()
        with pytest.raises(locknut.NotHeld, match=ADVICE):
            await locks.lock("x").release()
        took = time.monotonic() - began
        server.cont()
    return took
