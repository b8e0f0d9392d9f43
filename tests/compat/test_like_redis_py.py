"""The same assertions about redis-py's own Lock and ours: blocking and asyncio, on one server."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import threading
from typing import Any

import pytest
import redis
from redis.asyncio.retry import Retry as AsyncioRetry
from redis.backoff import NoBackoff
from redis.exceptions import LockError, LockNotOwnedError
from redis.retry import Retry

from tests.compat.kits import KINDS, Awaited, Kit
from tests.servers.ports import Ports
from tests.servers.processes import PATIENCE, until

pytestmark = pytest.mark.redis
RETRIES = (Retry, AsyncioRetry)
"""redis-py tries ten times more unless it is told not to."""


@pytest.mark.parametrize("colour", ["", "-asyncio"])
@pytest.mark.parametrize(
    "method", ["__init__", "acquire", "extend", "reacquire", "release", "owned", "locked"]
)
def test_the_signature(colour: str, method: str) -> None:
    """Names, order and defaults: a call that fits the one fits the other."""
    theirs, ours = (
        [(one.name, one.kind, one.default) for one in inspect.signature(each).parameters.values()]
        for each in (getattr(KINDS[kind + colour], method) for kind in ("redis-py", "locknut"))
    )
    assert ours == theirs


def test_the_attributes(kit: Kit) -> None:
    lock = kit.lock(9, 0.2, False, 3, False, False)
    named = "timeout", "sleep", "blocking", "blocking_timeout", "thread_local"
    assert [getattr(lock, name) for name in named] == [9, 0.2, False, 3, False]
    assert (lock.name, lock.redis, lock.raise_on_release_error) == (kit.name, kit.client, False)


def test_acquire_and_release(kit: Kit) -> None:
    lock = kit.lock(timeout=60)
    assert (lock.locked(), lock.owned()) == (False, False)
    assert lock.acquire() is True
    assert (lock.locked(), lock.owned()) == (True, True)
    assert kit.token(lock) == kit.server.ask("GET", kit.name)
    assert lock.release() is None
    assert (lock.locked(), lock.owned(), kit.left()) == (False, False, -2)


def test_nobody_else_gets_it(kit: Kit) -> None:
    """Nor the same object once more: it is not re-entrant."""
    lock, another, other = kit.lock(timeout=60), kit.lock(timeout=60), kit.others(timeout=60)
    assert lock.acquire()
    for each in (lock, another, other):
        assert each.acquire(blocking=False) is False
        assert each.acquire(blocking_timeout=0.15) is False
    assert (another.locked(), another.owned(), other.owned()) == (True, False, False)
    assert other.locked()
    lock.release()
    assert other.acquire(blocking=False) is True
    assert lock.acquire(blocking=False) is False
    other.release()
    assert kit.lock(timeout=60, blocking=False).acquire() is True


def test_what_the_constructor_says_is_the_default(kit: Kit) -> None:
    with kit.others(timeout=60):
        assert kit.lock(blocking=False).acquire() is False
        assert kit.lock(blocking_timeout=0.15).acquire() is False
        assert kit.lock(blocking_timeout=600).acquire(blocking_timeout=0.15) is False
        assert kit.lock(blocking_timeout=600).acquire(blocking=False) is False
        assert kit.lock(blocking_timeout=0).acquire() is False


def test_a_waiter_gets_it_when_it_is_released(kit: Kit) -> None:
    for holder in (kit.others(timeout=60), kit.lock(timeout=60, thread_local=False)):
        waiter, got = kit.lock(timeout=60, thread_local=False), list[bool]()
        assert holder.acquire()
        thread = threading.Thread(target=lambda: got.append(waiter.acquire()))  # noqa: B023
        thread.start()
        assert not got
        holder.release()
        thread.join(PATIENCE)
        assert got == [True]
        waiter.release()


def test_releasing_what_is_not_held(kit: Kit) -> None:
    for lock in (kit.lock(), kit.lock(thread_local=False)):
        with pytest.raises(LockError, match="not owned or is already unlocked") as caught:
            lock.release()
        assert caught.type is LockError


def test_releasing_what_somebody_else_has_now(kit: Kit) -> None:
    lock = kit.lock(timeout=60)
    assert lock.acquire()
    kit.server.ask("SET", kit.name, "somebody")
    assert (lock.locked(), lock.owned()) == (True, False)
    with pytest.raises(LockNotOwnedError, match="no longer owned"):
        lock.release()
    assert kit.server.ask("GET", kit.name) == b"somebody"
    with pytest.raises(LockError) as caught:
        lock.release()
    assert caught.type is LockError, "it knows by now that it holds nothing"
    kit.server.ask("DEL", kit.name)


def test_with(kit: Kit) -> None:
    lock = kit.lock(timeout=60)
    with lock as entered:
        assert entered is lock
        assert lock.owned()
        with pytest.raises(LockError, match="within the time"), kit.lock(blocking_timeout=0.15):
            pytest.fail("it was not acquired")
    assert kit.left() == -2
    with pytest.raises(ZeroDivisionError), lock:
        print(1 // 0)
    assert kit.left() == -2


def test_with_and_a_hold_that_is_gone(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LockNotOwnedError), kit.lock(timeout=60):
        kit.server.ask("DEL", kit.name)
    with kit.lock(timeout=60, raise_on_release_error=False):
        kit.server.ask("DEL", kit.name)
    assert "no longer owned when exiting context manager" in caplog.text


@pytest.mark.slow
def test_a_hold_ends_with_its_timeout(kit: Kit) -> None:
    """It is not renewed; and a second acquire of the same object then gets it."""
    lock = kit.lock(timeout=1.5)
    assert lock.acquire()
    assert 0 < kit.left() <= 1500
    assert kit.others(timeout=60, blocking=False).acquire() is False
    assert lock.acquire() is True
    lock.release()
    assert lock.acquire()
    until(lambda: kit.left() == -2, "it should run out")
    with pytest.raises(LockNotOwnedError):
        lock.release()


def test_extend_adds(kit: Kit) -> None:
    lock = kit.lock(timeout=100)
    assert lock.acquire()
    assert lock.extend(200) is True
    assert 200_000 < kit.left() <= 300_000
    assert lock.extend(100) is True
    assert 300_000 < kit.left() <= 400_000
    assert lock.owned()
    lock.release()


def test_extend_replaces(kit: Kit) -> None:
    """Upwards and downwards."""
    lock = kit.lock(timeout=100)
    assert lock.acquire()
    assert lock.extend(500, replace_ttl=True) is True
    assert 400_000 < kit.left() <= 500_000
    assert lock.extend(50, True) is True
    assert 0 < kit.left() <= 50_000
    assert lock.owned()
    lock.release()


def test_reacquire_sets_the_timeout_anew(kit: Kit) -> None:
    lock = kit.lock(timeout=100)
    assert lock.acquire()
    lock.extend(900)
    assert lock.reacquire() is True
    assert 0 < kit.left() <= 100_000
    lock.release()


@pytest.mark.parametrize("verb", ["extend", "reacquire"])
def test_prolonging_what_cannot_be(kit: Kit, verb: str) -> None:
    more = (10,) if verb == "extend" else ()
    with pytest.raises(LockError, match=f"Cannot {verb} an unlocked lock"):
        getattr(kit.lock(timeout=60), verb)(*more)
    lasting = kit.lock()
    assert lasting.acquire()
    with pytest.raises(LockError, match=f"Cannot {verb} a lock with no timeout"):
        getattr(lasting, verb)(*more)
    lasting.release()
    lock = kit.lock(timeout=60)
    assert lock.acquire()
    kit.server.ask("SET", kit.name, "somebody", "PX", "60000")
    with pytest.raises(LockNotOwnedError, match=f"Cannot {verb} a lock that's no longer owned"):
        getattr(lock, verb)(*more)
    assert kit.server.ask("GET", kit.name) == b"somebody"
    kit.server.ask("DEL", kit.name)


def test_a_thread_has_only_its_own_hold(kit: Kit) -> None:
    """An asyncio Lock lives on one loop, so on one thread: what one task acquired, all have."""
    lock, raised = kit.lock(timeout=60), list[Exception]()
    assert lock.acquire()

    def elsewhere() -> None:
        try:
            lock.release()
        except (LockError, AttributeError) as error:  # redis-py forgets to give it a token of None
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(PATIENCE)
    if kit.loop is None:
        assert len(raised) == 1
        lock.release()
    assert kit.left() == -2


def test_without_thread_local_any_thread_releases(kit: Kit) -> None:
    lock = kit.lock(timeout=60, thread_local=False)
    assert lock.acquire()
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join(PATIENCE)
    assert kit.left() == -2


def test_a_lock_that_is_dropped_stays_until_its_timeout(kit: Kit) -> None:
    """Many programs take one for a minute, so that something happens once in a minute."""
    assert kit.lock(timeout=600).acquire()
    assert kit.lock(timeout=600).acquire(blocking=False) is False
    gc.collect()
    assert kit.others(timeout=60, blocking=False).acquire() is False
    assert kit.left() > 0
    kit.server.ask("DEL", kit.name)


PROGRAM = """
import asyncio, redis, redis.asyncio
from {module} import Lock

def blocking():
    client = redis.Redis(port={port})
    assert Lock(client, "{name}", timeout=600).acquire()
    assert Lock(redis.Redis(port={port}), "{name}:thrown away", timeout=600).acquire()

async def loop():
    client = redis.asyncio.Redis(port={port})
    assert await Lock(client, "{name}", timeout=600).acquire()
    assert await Lock(client, "{name}:thrown away", timeout=600).acquire()
    await client.aclose()

{run}
"""


def test_a_lock_with_a_timeout_outlives_its_process(kit: Kit) -> None:
    module = {
        "redis-py": "redis.lock",
        "redis-py-asyncio": "redis.asyncio.lock",
        "locknut": "locknut.compat.redis_py",
        "locknut-asyncio": "locknut.compat.redis_py.aio",
    }[kit.kind]
    run = "blocking()" if kit.loop is None else "asyncio.run(loop())"
    program = PROGRAM.format(module=module, port=kit.server.port, name=kit.name, run=run)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    thrown_away = f"{kit.name}:thrown away"
    for name in (kit.name, thrown_away):
        assert int(kit.server.ask("PTTL", name)) > 500_000  # type: ignore[arg-type]
        kit.server.ask("DEL", name)


def test_bytes_are_a_name(kit: Kit) -> None:
    lock = kit.lock_class(kit.client, kit.name.encode(), timeout=60)
    acquired = lock.acquire() if kit.loop is None else kit.loop.run(lock.acquire())
    assert acquired
    assert kit.others(blocking=False).acquire() is False
    kit.server.ask("DEL", kit.name)


def test_a_client_makes_them(kit: Kit) -> None:
    lock: Any = kit.client.lock(kit.name, timeout=60, lock_class=kit.lock_class)
    assert type(lock) is kit.lock_class


def test_a_server_that_is_gone(kit: Kit) -> None:
    ports = Ports()
    (port,) = ports.reserve(1)
    no_retries: Any = {} if kit.ours else {"retry": RETRIES[kit.loop is not None](NoBackoff(), 0)}
    client = type(kit.client)(port=port, **no_retries)
    lock = kit.lock_class(client, kit.name, timeout=60)
    with pytest.raises(redis.exceptions.ConnectionError):
        (lock if kit.loop is None else Awaited(lock, kit.loop)).acquire(blocking=False)
    ports.close()
