"""Every name has keys of its own, all in one hash slot, and can be read back."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import locknut
from locknut.backends.redis import lock_keys
from locknut.core.values import Busy, Granted
from locknut.errors import ConfigurationError
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.redis.conftest import claim, engine
from tests.servers.redis import RedisServer

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.text(
    "{}%:7BD25", min_size=1, max_size=12
)


@given(NAMES, st.booleans())
def test_a_name_is_read_back(name: str, permits: bool) -> None:
    key = lock_keys.hold_key(f"ns:{name}", permits=permits)
    assert lock_keys.key_of(key) == (f"ns:{name}", permits)
    assert lock_keys.key_of(key + b":line") == (f"ns:{name}", permits)
    assert lock_keys.key_of(key + b":fence") is None


@given(NAMES, st.booleans())
def test_all_keys_of_a_name_share_the_hash_tag(name: str, permits: bool) -> None:
    key = lock_keys.hold_key(f"ns:{name}", permits=permits)
    start, end = key.index(b"{"), key.index(b"}")
    assert (key.count(b"{"), key.count(b"}")) == (1, 1)
    assert end > start + 1


ODD = [
    "two words",
    "{",
    "}",
    "{}",
    "a{b}c",
    "\U0001f512",
    "a\0b",
    "a\r\nb",
    "*",
    "[a-z]?",
    "\\",
    '"',
]


@pytest.mark.redis
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(NAMES | st.sampled_from([*ODD, "y" * 1024]), st.none() | st.text(max_size=8))
def test_a_lock_of_any_name_and_owner_is_handed_over(
    redis_server: RedisServer, name: str, owner: str | None
) -> None:
    if owner is not None and any(0xD800 <= ord(each) < 0xE000 for each in owner):
        return  # refused before it gets here
    port = engine(redis_server).blocking(ThreadRuntime())
    holder, waiter = claim(name, owner=owner), claim(name)
    assert isinstance(run(port.attempt(holder, 0.0)), Granted)
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    (info,) = run(port.inspect(holder.key))
    assert (info.name, info.holders[0].owner, len(info.waiters)) == (holder.key, owner, 1)
    assert holder.key in {each.name for each in run(port.inspect())}
    with port.watch(waiter, ThreadRuntime().signal) as inbox:
        assert run(port.release(holder))
        assert run(inbox.wait(now() + 5.0)), "the grant is where its reader looks for it"
        pushed = run(port.attempt(waiter, 0.0))
    assert isinstance(pushed, Granted)
    assert pushed.anchor is not None
    assert run(port.release(waiter))
    run(port.close())


@pytest.mark.redis
@pytest.mark.parametrize("name", ["x" * 4096, "\U0001f512" * 257, "", "\ud800"])
def test_what_is_refused_says_why(redis_server: RedisServer, name: str) -> None:
    with (
        locknut.connect(redis_server.url) as locks,
        pytest.raises(ConfigurationError, match="name"),
    ):
        locks.lock(name)
