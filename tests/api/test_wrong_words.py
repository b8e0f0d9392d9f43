"""Mistakes at the door are answered by what was meant: schemes, options, arguments, faces."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import locknut
from locknut import aio, redlock, urls
from locknut.runtimes.cpython import is_coroutine_function


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("reddis://localhost", "redis"),
        ("Redis+sentinal://h/x", "redis+sentinel"),
        ("zookeper://h", "zookeeper"),
        ("redlok://a,b,c", "redlock"),
        ("fiel:", "file"),
        ("memry:", "memory"),
    ],
)
def test_the_nearest_scheme_is_suggested(url: str, meant: str) -> None:
    with pytest.raises(locknut.ConfigurationError) as caught:
        locknut.connect(url)
    assert str(caught.value).endswith(f"URLs, did you mean {meant!r}?")


def test_where_no_scheme_is_near_there_is_one_name_for_each_engine() -> None:
    with pytest.raises(locknut.ConfigurationError) as caught:
        locknut.connect("oracle:///x.db")
    said = str(caught.value)
    assert said.startswith("no engine is installed for 'oracle' URLs; there are: ")
    named = said.partition("there are: ")[2].split(", ")
    known = {scheme.partition("+")[0] for scheme in urls._ENGINES}
    assert {"file", "memcached", "memory", "redis", "sqlite", "zookeeper"} <= set(named) <= known
    assert not [each for each in named if "+" in each or each in {"rediss", "redlocks"}]


@pytest.mark.parametrize("address", ["localhost:6379", "db.example.org:2181"])
def test_an_address_is_not_a_url(address: str) -> None:
    with pytest.raises(locknut.ConfigurationError, match=f"did you mean 'redis://{address}'"):
        locknut.connect(address)


@pytest.mark.parametrize("face", [locknut, aio], ids=["blocking", "asyncio"])
def test_a_capability_is_not_its_letters(face: Any) -> None:
    meant = re.escape("write require={'fencing'}")
    with pytest.raises(locknut.ConfigurationError, match=meant):
        face.connect("memory:", require="fencing")
    several = redlock.Redlock(["redis://a", "redis://b", "redis://c"])
    with pytest.raises(locknut.ConfigurationError, match=meant):
        face.connect(several, require="fencing")


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("file:///tmp?netwrok=allow", "network"),
        ("file:///tmp?namspace=a", "namespace"),
        ("memory:?namespce=a", "namespace"),
        ("redis://h?socket_timout=1", "socket_timeout"),
        ("redis+sentinel://h/jobs?sentinel_pasword=x", "sentinel_password"),
        ("redis+cluster://h?socket_tiemout=1", "socket_timeout"),
        ("redlock://a,b,c?maxttl=30", "max_ttl"),
        ("zookeeper://h?session_timout=5", "session_timeout"),
    ],
)
def test_the_nearest_option_is_suggested(url: str, meant: str) -> None:
    with pytest.raises(locknut.ConfigurationError, match=f", did you mean {meant!r}"):
        locknut.connect(url)


def test_where_nothing_is_near_all_options_are_named() -> None:
    with pytest.raises(locknut.ConfigurationError, match="'zzz'; it knows network, namespace, id"):
        locknut.connect("file:///tmp?zzz=1")


def test_a_node_of_a_redlock_has_no_namespace_of_its_own() -> None:
    nodes = ["redis://a?namespace=x", "redis://b", "redis://c"]
    with pytest.raises(locknut.ConfigurationError, match="does not know the option 'namespace'"):
        locknut.connect(redlock.Redlock(nodes))


def test_a_redlock_is_a_list_of_urls() -> None:
    with pytest.raises(locknut.ConfigurationError, match="a list of URLs is needed"):
        redlock.Redlock("redis://a,b,c")
    with pytest.raises(TypeError, match=r"^Redlock\(\) has .* did you mean 'max_ttl'"):
        redlock.Redlock(["redis://a"], maxttl=30)  # type: ignore[call-arg]


ARGUMENTS = [
    ({"blocking_timeout": 5}, "timeout= is how long to wait"),
    ({"timeout": 60, "blocking_timeout": 5}, "what redis-py calls timeout is ttl= here"),
    ({"timeout": 60, "thread_local": False}, "what redis-py calls timeout is ttl= here"),
    ({"expire": 30}, "ttl= is how long a hold lasts"),
    ({"lease_time": 30}, "ttl= is how long a hold lasts"),
    ({"auto_renewal": True}, "auto_renew="),
    ({"poll_interval": 0.1}, "waiters are woken here"),
    ({"tll": 3}, "has no argument 'tll', did you mean 'ttl'?"),
    ({"timout": 3}, "did you mean 'timeout'?"),
]
FACES: list[Any] = [locknut, aio]


@pytest.mark.parametrize("face", FACES, ids=["blocking", "asyncio"])
@pytest.mark.parametrize(("given", "told"), ARGUMENTS, ids=lambda each: str(each)[:40])
def test_arguments_of_other_libraries_are_answered(
    face: Any, given: dict[str, Any], told: str, url: str
) -> None:
    locks = face.connect(url)
    for made in (locks.lock, locks.rwlock, face.lock, face.rwlock):
        assert told in mistake(partial(made, "x", **given))
    for made in (locks.semaphore, face.semaphore):
        assert told in mistake(partial(made, "x", 3, **given))
    assert told in mistake(lambda: locks.all("x", "y", **given))
    assert told in mistake(lambda: locks.locked("x", **given))


OF_ACQUIRE = [
    ({"blocking_timeout": 3}, "timeout= is how long to wait"),  # redis-py
    ({"timeout": 60, "sleep": 1}, "what redis-py calls timeout is ttl= here"),
    ({"token": "mine"}, "owner= shares a hold"),
    ({"expire": 30}, "ttl= is how long a hold lasts"),  # python-redis-lock, sherlock
    ({"poll_interval": 0.1}, "waiters are woken here"),  # filelock
    ({"retry_count": 3}, "timeout= is how long to wait"),  # redlock-py
    ({"auto_release_time": 30}, "ttl= is how long a hold lasts"),  # pottery
    ({"block": False}, "acquire(blocking=False)"),  # multiprocessing
    ({"fail_when_locked": True}, "acquire(blocking=False)"),  # portalocker
    ({"shared": True}, "rwlock(name).read()"),  # tooz
    ({"timout": 3}, "did you mean 'timeout'?"),
    ({"nonsense": 3}, "acquire() has no argument 'nonsense'"),
]


@pytest.mark.parametrize("face", FACES, ids=["blocking", "asyncio"])
@pytest.mark.parametrize(("given", "told"), OF_ACQUIRE, ids=lambda each: str(each)[:40])
def test_so_are_those_of_acquire(face: Any, given: dict[str, Any], told: str, url: str) -> None:
    """Told by the call itself, also where its answer would have to be awaited."""
    for lock in acquirable(face.connect(url)):
        said = mistake(partial(lock.acquire, **given))
        assert said.startswith("acquire() has no argument ")
        assert told in said


@pytest.mark.parametrize("face", FACES, ids=["blocking", "asyncio"])
@pytest.mark.parametrize("option", ["ttl", "expire", "auto_renew", "max_hold", "fair", "owner"])
def test_acquire_does_not_take_what_a_lock_is_made_with(face: Any, option: str, url: str) -> None:
    for lock in acquirable(face.connect(url)):
        assert "it is given when the lock is made" in mistake(partial(lock.acquire, **{option: 3}))


@pytest.mark.parametrize("face", FACES, ids=["blocking", "asyncio"])
def test_acquire_looks_as_it_did(face: Any) -> None:
    """To help(), to editors and to whoever asks whether it is to be awaited."""
    for kind in (face.Lock, face.Semaphore, face.LockGroup):
        assert list(inspect.signature(kind.acquire).parameters) == ["self", "blocking", "timeout"]
        assert kind.acquire.__qualname__.endswith(".acquire")
        assert is_coroutine_function(kind.acquire) is (face is aio)


def acquirable(locks: Any) -> list[Any]:
    catalog = locks.rwlock("x")
    several = locks.all("x", "y")
    return [locks.lock("x"), locks.semaphore("s", 3), catalog.read(), catalog.write(), several]


@pytest.mark.parametrize("face", FACES, ids=["blocking", "asyncio"])
def test_timeout_alone_is_no_mistake(face: Any, url: str) -> None:
    """Here it is the wait; in redis-py it was the ttl. Nobody can tell which was meant."""
    assert face.connect(url).lock("x", timeout=60) is not None


def test_the_second_place_is_the_ttl(url: str) -> None:
    """As in redis-py; in filelock it is the timeout, and the page about migrating says so."""
    with locknut.connect(url) as locks, locks.lock("x", 5) as lease:
        assert 0 < lease.remaining <= 5


@pytest.mark.parametrize("face", FACES, ids=["blocking", "asyncio"])
def test_connect_too(face: Any) -> None:
    assert "did you mean 'namespace'?" in mistake(lambda: face.connect("memory:", namspace="x"))
    assert "did you mean 'max_ttl'?" in mistake(lambda: redlock.Redlock([], max_tll=3))  # type: ignore[call-arg]


@pytest.mark.parametrize("face", [locknut, aio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"host": "h", "port": 6379}, 'it belongs in the URL: connect("redis://'),
        ({"password": "x"}, "it belongs in the URL"),
        ({"timeout": 5}, "it is for each lock: lock(name, timeout=5)"),
        ({"ttl": 5}, "it is for each lock: lock(name, ttl=30)"),
    ],
)
def test_what_connect_takes_elsewhere(face: Any, options: dict[str, Any], meant: str) -> None:
    assert meant in mistake(lambda: face.connect(**options))


@pytest.mark.parametrize("face", [locknut, aio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize(
    ("kind", "words", "meant"),
    [
        ("Lock", ("x",), "lock(name)"),
        ("Semaphore", ("x", 3), "semaphore(name, permits)"),
        ("Locks", ("memory:",), "connect(url)"),
    ],
)
def test_a_class_names_the_function_that_makes_it(
    face: Any, kind: str, words: tuple[object, ...], meant: str
) -> None:
    said = mistake(lambda: getattr(face, kind)(*words))
    assert said == f"{face.__name__}.{kind} is not called directly: use {face.__name__}.{meant}"


def mistake(call: Callable[[], object]) -> str:
    with pytest.raises(TypeError) as caught:
        call()
    return str(caught.value)


async def enter(thing: Any) -> None:
    async with thing:
        raise AssertionError(thing)


def test_async_with_on_a_blocking_lock_names_aio(locks: locknut.Locks) -> None:
    lease = locks.lock("x").acquire()
    assert lease is not None
    several = locks.all("a", "b")
    things = [locks, locks.lock("x"), locks.semaphore("x", 3), lease, several]
    for thing in things:
        with pytest.raises(TypeError, match=r"locknut\.aio"):
            asyncio.run(enter(thing))
        assert not hasattr(thing, "__aenter__")
    lease.release()


def test_with_on_an_asyncio_lock_names_the_blocking_face(url: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks:
            lease = await locks.lock("x").acquire()
            assert lease is not None
            several = locks.all("a", "b")
            for thing in (locks, locks.lock("x"), locks.semaphore("x", 3), lease, several):
                anything: Any = thing
                with pytest.raises(TypeError, match=r"`async with`.*locknut\.lock"), anything:
                    raise AssertionError(thing)
                assert not hasattr(thing, "__enter__")
            await lease.release()

    asyncio.run(story())


@pytest.mark.parametrize("face", FACES, ids=["blocking", "asyncio"])
def test_a_read_write_lock_is_entered_by_its_halves(face: Any, url: str) -> None:
    catalog = face.connect(url).rwlock("catalog")
    with pytest.raises(TypeError, match=r"\.read\(\) or \.write\(\)"), catalog:
        raise AssertionError(catalog)
    with pytest.raises(TypeError, match=r"\.read\(\) or \.write\(\)"):
        asyncio.run(enter(catalog))
