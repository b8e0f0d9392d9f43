"""Locks in pickles: the same lock in any process, one client for all of them, nothing of a hold."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import secrets
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.opening import Settings
from locknut.pickling import Origin
from locknut.redlock import Redlock
from tests.api.crowd import PATIENCE, in_thread
from tests.forks.child import in_child
from tests.forks.conftest import SHARED, single_permit

each_shared = pytest.mark.parametrize("url", SHARED, indirect=True)
on_files = pytest.mark.parametrize(
    "url", [pytest.param("file", marks=pytest.mark.file)], indirect=True
)
each_face = pytest.mark.parametrize("face", [locknut, aio], ids=["blocking", "asyncio"])

ELSEWHERE = """
import pickle, sys
from pathlib import Path
things = pickle.loads(Path(sys.argv[1]).read_bytes())
exec(sys.argv[2])
"""


def elsewhere(tmp_path: Path, things: object, check: str, **environment: str) -> str:
    """Run this in a process that knows nothing but the pickle; what it prints."""
    file = tmp_path / f"pickle-{secrets.token_hex(4)}"
    file.write_bytes(pickle.dumps(things))
    command = [sys.executable, "-c", ELSEWHERE, str(file), check]
    told = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def everything(locks: Any) -> list[Any]:
    """One of each kind."""
    made = [locks, locks.lock("x"), locks.rwlock("r"), locks.semaphore("s", 2)]
    return [*made, locks.all("a", "b")]


@each_shared
def test_another_process_is_led_to_the_same_locks(url: str, tmp_path: Path) -> None:
    check = """
locks, free, *busy = things
print([each.acquire(blocking=False) is None for each in busy])
assert locks.info("x").holders[0].label == "us"
with free as lease, locks.lock("free"):
    print(free.info().locked, free.held, lease.held)
"""
    with locknut.connect(url, label="us") as locks:
        free = locks.lock("free", ttl=20, timeout=PATIENCE, on_lost="ignore")
        with locks.lock("x"), locks.rwlock("r").write(), single_permit(locks):
            busy = [locks.lock("x"), locks.rwlock("r").read(), locks.all("x", "y")]
            said = elsewhere(tmp_path, [locks, free, *busy, single_permit(locks)], check)
        assert said.splitlines() == [str([True] * 4), "True True True"]


@each_shared
def test_the_same_on_a_loop(url: str, tmp_path: Path) -> None:
    check = """
import asyncio
locks, free, *busy = things
async def main():
    print([await each.acquire(blocking=False) is None for each in busy])
    async with free as lease, locks.lock("free"):
        print((await free.info()).locked, free.held, lease.held)
    await locks.close()
asyncio.run(main())
"""

    async def main() -> None:
        async with aio.connect(url) as locks:
            free = locks.lock("free", ttl=20, timeout=PATIENCE, on_lost="ignore")
            async with locks.lock("x"), locks.rwlock("r").write(), single_permit(locks):
                busy = [locks.lock("x"), locks.rwlock("r").read(), locks.all("x", "y")]
                things = [locks, free, *busy, single_permit(locks)]
                said = await asyncio.to_thread(elsewhere, tmp_path, things, check)
            assert said.splitlines() == [str([True] * 4), "True True True"]

    asyncio.run(main())


@each_face
@on_files
def test_in_one_process_they_are_what_they_were(url: str, face: Any) -> None:
    """Many locks of one Locks share one client, whichever of them comes first."""
    locks = face.connect(url)
    other = face.connect(url)
    for thing in everything(locks):
        here = again(thing)
        assert type(here) is type(thing)
        assert repr(here) == repr(thing)
    assert again(locks)._client is locks._client
    assert again(locks.lock("x"))._client is locks._client
    assert again(other)._client is other._client
    assert again(locks).place == locks.place


@on_files
def test_what_is_held_is_entered_again_by_a_lock_of_a_pickle(url: str) -> None:
    with locknut.connect(url) as locks:
        lock = locks.lock("x", timeout=0)
        with lock:
            assert again(lock).held
            with again(lock), again(locks).lock("x", timeout=0):
                pass
            assert in_thread(again(lock).acquire, False) is None


@on_files
def test_settings_travel_and_listeners_do_not(url: str) -> None:
    heard: list[str] = []
    require = iter(["fencing"])
    locks = locknut.connect(url, namespace="n", label="l", cohort=3, require=require, id="i")
    locks.on_event(lambda event: heard.append(event.kind))
    pickled = pickle.dumps([locks, locks.lock("x", ttl=7, timeout="1m", owner="o", on_lost=print)])
    before = locks._client
    locks.close()
    heard.clear()
    other, lock = pickle.loads(pickled)
    assert other._client is lock._client is not before
    assert (other.namespace, other._client.label, other._client.cohort) == ("n", "l", 3)
    assert other._client.id == "i"
    assert (lock._request.options.ttl, lock.owner, lock._wait, lock._on_lost) == (7, "o", 60, print)
    with lock:
        pass
    assert heard == []
    other.close()


@on_files
def test_where_it_is_read_the_default_is_another_client(url: str, tmp_path: Path) -> None:
    check = "\nwith things: print(things.held, locknut.lock('x').acquire(blocking=False))"
    with locknut.connect(url) as locks:
        said = elsewhere(tmp_path, locks.lock("x"), "import locknut" + check, LOCKNUT_URL=url)
    assert said == "True None"


def told_of_a_loss(lease: object) -> None:
    """What `on_lost` calls, found by its name."""


@on_files
def test_on_lost_is_carried_if_it_can_be(url: str) -> None:
    with locknut.connect(url) as locks:
        assert again(locks.lock("x", on_lost=told_of_a_loss))._on_lost is told_of_a_loss
        with pytest.raises((AttributeError, pickle.PicklingError)):
            pickle.dumps(locks.lock("x", on_lost=lambda _: None))


@on_files
def test_what_was_closed_is_not_pickled(url: str) -> None:
    locks = locknut.connect(url)
    lock = locks.lock("x")
    locks.close()
    for thing in (locks, lock, locks.all("a", "b")):
        with pytest.raises(locknut.ConfigurationError, match="was closed"):
            pickle.dumps(thing)


@each_face
def test_memory_excludes_nobody_elsewhere(face: Any) -> None:
    for thing in everything(face.connect("memory:pickled")):
        with pytest.raises(TypeError, match="memory: exclude nobody outside"):
            pickle.dumps(thing)


@each_face
@pytest.mark.parametrize("url", [pytest.param("redis", marks=pytest.mark.redis)], indirect=True)
def test_a_client_of_a_driver_is_no_way_to_the_engine(url: str, face: Any) -> None:
    import redis

    locks = face.connect(redis.Redis.from_url(url.partition("?")[0]))
    for thing in everything(locks):
        with pytest.raises(TypeError, match="connect by URL"):
            pickle.dumps(thing)
        assert copy.deepcopy(thing) is thing


SECRET = "hunter2"  # no more than a word to look for


@each_face
def test_a_password_is_in_the_pickle_and_nowhere_else(face: Any) -> None:
    url = f"redis://user:{SECRET}@localhost:1/0"
    locks = face.connect(url)
    assert SECRET.encode() in pickle.dumps(locks)
    shown = [repr(again(each)) for each in everything(locks)]
    engine_and_settings = locknut.opening.open_url(url, Settings())
    shown += [repr(engine_and_settings), repr(Origin(url)), repr(locks._client.carried)]
    assert SECRET not in " ".join(shown)


def test_nodes_with_urls_of_their_own(tmp_path: Path) -> None:
    nodes = [f"redis://:{SECRET}@localhost:{port}" for port in (1, 2, 3)]
    several = Redlock(nodes, max_ttl=33, set_name="pickled")
    assert SECRET not in repr(several)
    locks = locknut.connect(several, namespace="n")
    pickled = pickle.dumps(locks.lock("x"))
    before = locks._client
    locks.close()
    lock = pickle.loads(pickled)
    client = lock._client
    assert client is not before
    assert (client.id, client.prefix) == (before.id, before.prefix)
    assert client.backend.max_ttl == before.backend.max_ttl == 33


@pytest.mark.file
def test_the_directory_is_passed_on_not_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`file:` would be another one for a process with another environment."""
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    with locknut.connect("file:") as locks, locks.lock("x"):
        others = dict.fromkeys(("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME", "TMPDIR"), "/nowhere")
        check = "print(things.place); assert things.lock('x').acquire(blocking=False) is None"
        assert elsewhere(tmp_path, locks, check, **others) == locks.place


def test_the_url_of_the_environment_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKNUT_URL", "redis://localhost:1/3")
    with locknut.connect() as locks:
        ask = "print(things._client.id)"
        assert elsewhere(tmp_path, locks, ask, LOCKNUT_URL="redis://elsewhere") == locks._client.id


@on_files
def test_threads_that_read_it_at_once_share_one_client(url: str) -> None:
    locks = locknut.connect(url)
    pickled = pickle.dumps(locks.lock("x"))
    locks.close()
    here, found = threading.Barrier(8), []

    def read() -> None:
        here.wait(PATIENCE)
        found.append(pickle.loads(pickled))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(lock._client) for lock in found}) == 1


@on_files
def test_on_every_loop_it_is_another_ones_client(url: str) -> None:
    """As a worker has it that starts a loop for each of its tasks."""
    kept = aio.connect(url)
    pickled = pickle.dumps(kept.lock("x", timeout=PATIENCE))

    async def use() -> Any:
        first, second = pickle.loads(pickled), pickle.loads(pickled)
        async with first, second:
            assert first._client is second._client
        return first

    used = [asyncio.run(use()) for _ in range(3)]
    assert used[0]._client is kept._client, "the first loop that uses it is its own"
    assert len({id(lock._client) for lock in used}) == 3


@on_files
def test_a_forked_child_knows_it(url: str) -> None:
    with locknut.connect(url) as locks:
        lock = locks.lock("x", timeout=0)
        pickled = pickle.dumps(lock)

        def check() -> None:
            here = pickle.loads(pickled)
            assert here.acquire(blocking=False) is None
            with again(locks.lock("y", timeout=0)), locks.lock("y", timeout=0) as lease:
                assert lease.held
            assert here._client is locks._client

        with lock:
            in_child(check)


@each_face
@on_files
def test_a_copy_is_the_lock_itself(url: str, face: Any) -> None:
    locks = face.connect(url)
    for thing in everything(locks):
        assert copy.copy(thing) is thing
        assert copy.deepcopy(thing) is thing
        assert copy.deepcopy([thing])[0] is thing
