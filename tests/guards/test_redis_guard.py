"""The guard for data in Redis, in both colours: who is refused, and what a flush does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import locknut
from locknut.errors import ConfigurationError, NotHeld, StaleFence
from locknut.guards.redis import RedisGuard, aio, steps
from locknut.guards.redis.steps import record_of
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
BIG = 2**60
"""Beyond what a number of Lua is exact for."""


class OnALoop:
    """The asyncio guard, driven from a test that blocks."""

    def __init__(self, guard: aio.RedisGuard, loop: asyncio.Runner) -> None:
        self._guard = guard
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._guard, name)
        if not callable(value):
            return value
        return lambda *words: self if self._run(value(*words)) is self._guard else self._last

    def _run(self, work: Any) -> Any:
        self._last = self._loop.run(work)
        return self._last


Make = Callable[[], Any]


@pytest.fixture(params=["blocking", "asyncio", "decoded"])
def make(request: pytest.FixtureRequest, redis_server: RedisServer) -> Iterator[Make]:
    """Makes one more guard of the same data: somebody else's."""
    key = f"stock:{request.node.name}"
    with asyncio.Runner() as loop:
        if request.param == "asyncio":
            shared = redis.asyncio.Redis.from_url(redis_server.url)
            yield lambda: OnALoop(aio.RedisGuard(shared, key), loop)
            loop.run(shared.aclose())
        else:
            decoded = request.param == "decoded"
            client = redis.Redis.from_url(redis_server.url, decode_responses=decoded)
            yield lambda: RedisGuard(client, key)
            client.close()


def number(found: Any) -> int:
    return int(found)


def test_an_older_fence_is_refused_at_every_step(make: Make) -> None:
    old, new = make().enter(7), make()
    old.run("SET", old.key, 1)
    new.enter(8)
    assert number(new.run("GET", new.key)) == 1
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: old.run("SET", old.key, 2),
        lambda: old.run("GET", old.key),
        lambda: old.run_all([("SET", old.key, 2), ("DEL", old.key)]),
        lambda: old.eval("return redis.call('set', KEYS[1], ARGV[1])", [old.key], [2]),
        lambda: old.enter(7),
        lambda: make().enter(6),
    )
    for refused in attempts:
        with pytest.raises(StaleFence, match="8"):
            refused()
    assert number(new.run("GET", new.key)) == 1
    assert new.newest() == 8


def test_the_same_fence_may_try_again(make: Make) -> None:
    first, second = make().enter(7), make().enter(7)
    for guard in (first, second, first):
        guard.enter(7).run("SET", guard.key, 1)
    assert first.newest() == 7


def test_fences_beyond_what_lua_can_count_are_told_apart(make: Make) -> None:
    make().enter(BIG + 7)
    with pytest.raises(StaleFence):
        make().enter(BIG + 3)
    with pytest.raises(StaleFence):
        make().enter(9)
    assert make().enter(BIG + 8).newest() == BIG + 8


def test_several_commands_are_one_step(make: Make) -> None:
    guard = make().enter(7)
    key = guard.key
    found = guard.run_all([("SET", key, 5), ("INCRBY", key, 2), ("GET", "no such key")])
    assert found[1:] == [7, None]
    assert guard.run_all([]) == []


def test_own_lua_sees_its_own_keys_and_arguments(make: Make) -> None:
    guard = make().enter(7)
    script = """
        local before = redis.call('get', KEYS[1]) or '0'
        redis.call('set', KEYS[1], before + ARGV[1])
        return {#KEYS, #ARGV, before + ARGV[1]}
    """
    assert guard.eval(script, [guard.key], [5]) == [1, 1, 5]
    assert guard.eval(script, [guard.key], [5]) == [1, 1, 10]
    assert guard.eval("local nothing = 1") is None
    with pytest.raises(redis.ResponseError, match="mine"):
        guard.eval("return redis.error_reply('MINE this is mine')")
    with pytest.raises(ConfigurationError, match="#!lua"):
        guard.eval("#!lua name=x\nreturn 1")


def test_after_a_flush_everybody_in_the_middle_starts_over(
    make: Make, redis_server: RedisServer
) -> None:
    old, new = make().enter(7), make().enter(8)
    redis_server.flushall()
    for each in (old, new):
        with pytest.raises(StaleFence, match="memory was lost"):
            each.run("SET", each.key, 1)
    # The old one comes in again before the new one did: this is what nobody can tell apart ...
    old.enter(7)
    with pytest.raises(StaleFence, match="memory was lost"):
        new.run("SET", new.key, 1)
    # ... but as soon as the new one is back, it is over.
    new.enter(8)
    with pytest.raises(StaleFence):
        old.run("SET", old.key, 1)


def test_flushed_scripts_are_sent_again(make: Make, redis_server: RedisServer) -> None:
    guard = make().enter(7)
    redis_server.script_flush()
    guard.run("SET", guard.key, 1)
    redis_server.script_flush()
    assert number(guard.eval("return redis.call('get', KEYS[1])", [guard.key])) == 1


def test_what_is_not_entered_or_no_command_is_refused(make: Make) -> None:
    with pytest.raises(NotHeld, match="enter"):
        make().run("GET", "x")
    guard = make().enter(7)
    for wrong in (("GET",), "GET x", ()):
        with pytest.raises((ConfigurationError, redis.ResponseError)):
            guard.run_all([wrong])


def test_the_record_is_kept_for_ever_and_is_not_somebody_elses(
    make: Make, redis_server: RedisServer
) -> None:
    guard = make().enter(7)
    assert redis_server.ask("TTL", guard.record) == -1
    redis_server.ask("SET", guard.record, "something")
    with pytest.raises(redis.ResponseError, match="record of a guard"):
        guard.run("GET", guard.key)


def test_only_exclusive_holds_enter(redis_server: RedisServer) -> None:
    with (
        redis.Redis.from_url(redis_server.url) as client,
        locknut.connect(redis_server.url) as locks,
    ):
        with locks.lock("guarded") as lease:
            assert RedisGuard(client, "guarded").enter(lease).fence == lease.fence
        with locks.rwlock("guarded").read() as reader, pytest.raises(ConfigurationError):
            RedisGuard(client, "guarded").enter(reader)


@pytest.mark.parametrize(
    ("key", "record"),
    [
        ("stock", "{stock}:guard"),
        ("stock:{7}", "stock:{7}:guard"),
        ("{7}:stock", "{7}:stock:guard"),
        ("a{b", "{a{b}:guard"),
    ],
)
def test_the_record_is_in_the_slot_of_its_key(key: str, record: str) -> None:
    from redis.crc import key_slot

    assert record_of(key) == record
    assert key_slot(key.encode()) == key_slot(record.encode())


@pytest.mark.parametrize("key", ["", None, "a}b", "{}stock"])
def test_keys_without_a_place_for_the_record_are_refused(key: Any) -> None:
    with pytest.raises(ConfigurationError, match="key="):
        RedisGuard(None, key)  # type: ignore[arg-type]


def test_scripts_with_values_in_their_text_do_not_pile_up() -> None:
    for value in range(500):
        steps.own("x", 1, f"return {value}", (), ())
    assert steps._own.cache_info().currsize <= steps._OWN
