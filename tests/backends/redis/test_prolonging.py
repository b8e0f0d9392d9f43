"""What sets the time that a hold has left: it never takes time away, and works on a full server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from locknut.core.values import Claim, Granted, Mode, Renewal
from locknut.errors import BackendError
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.redis.conftest import claim, engine
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "owner": {"owner": "ann"},
    "read": {"mode": Mode.SHARED},
    "permit": {"mode": Mode.PERMIT, "permits": 2},
}
EACH = pytest.mark.parametrize("kind", KINDS)


def left(port: Any, mine: Claim) -> float:
    (info,) = run(port.inspect(mine.key))
    found: float = info.holders[0].ttl_left
    return found


@EACH
def test_a_late_renewal_does_not_shorten_what_was_detached(server: RedisServer, kind: str) -> None:
    """It was on its way when the hold was detached for longer; so was an attempt that is
    repeated."""
    port, mine = engine(server).blocking(ThreadRuntime()), claim(**KINDS[kind], ttl=5.0)
    granted = run(port.attempt(mine, 0.0))
    assert run(port.detach(mine, 600.0))
    assert run(port.renew([mine])) == [Renewal.HELD]
    assert left(port, mine) > 500
    assert run(port.attempt(mine, 0.0)) == granted
    assert left(port, mine) > 500
    run(port.release(mine))
    run(port.close())


@EACH
def test_a_hold_may_be_detached_for_less_than_its_ttl(server: RedisServer, kind: str) -> None:
    port, mine = engine(server).blocking(ThreadRuntime()), claim(**KINDS[kind], ttl=600.0)
    run(port.attempt(mine, 0.0))
    assert run(port.detach(mine, 30.0))
    assert left(port, mine) <= 30
    run(port.release(mine))
    run(port.close())


@EACH
def test_whoever_attaches_has_the_ttl_of_its_lock(server: RedisServer, kind: str) -> None:
    port = engine(server).blocking(ThreadRuntime())
    detached, mine = (claim(**KINDS[kind], ttl=30.0) for _ in range(2))
    run(port.attempt(detached, 0.0))
    assert run(port.detach(detached, 600.0))
    assert run(port.attach(detached, mine)) is not None
    assert left(port, mine) <= 30, "a holder that dies now would keep it for ten minutes"
    run(port.release(mine))
    run(port.close())


@EACH
def test_an_attach_that_comes_again_does_not_shorten_what_was_detached_since(
    server: RedisServer, kind: str
) -> None:
    """It was asked twice, because the first answer was lost; one of them is late."""
    port = engine(server).blocking(ThreadRuntime())
    detached, mine = (claim(**KINDS[kind], ttl=5.0) for _ in range(2))
    run(port.attempt(detached, 0.0))
    assert run(port.detach(detached, 60.0))
    granted = run(port.attach(detached, mine))
    assert run(port.detach(mine, 600.0))
    assert run(port.attach(detached, mine)) == granted
    assert left(port, mine) > 500
    run(port.release(mine))
    run(port.close())


@pytest.mark.parametrize("layout", ["redisson", "redis-py"])
def test_in_a_foreign_layout(server: RedisServer, layout: str) -> None:
    port: Any = open_engine(f"{server.url}?layout={layout}")[0].blocking(ThreadRuntime())
    detached, given_up, mine = (claim(ttl=5.0) for _ in range(3))
    granted = run(port.attempt(detached, 0.0))
    assert run(port.detach(detached, 600.0))
    assert run(port.renew([detached])) == [Renewal.HELD]
    assert run(port.attempt(detached, 0.0)) == granted
    assert left(port, detached) > 500
    assert run(port.attach(detached, given_up)) == granted
    run(port.undo_attach(given_up, detached._replace(ttl=600.0)))
    assert left(port, detached) > 500
    assert run(port.attach(detached, given_up)) is None, "a late attach was not barred"
    assert run(port.attach(detached, mine)) == granted
    assert left(port, mine) <= 5
    assert run(port.detach(mine, 600.0))
    assert run(port.attach(detached, mine)) == granted, "it was asked twice, and one came late"
    assert left(port, mine) > 500
    run(port.undo_attach(given_up, detached._replace(ttl=600.0)))
    assert run(port.release(mine))
    assert not run(port.inspect(mine.key))
    run(port.close())
    server.flushall()


@pytest.fixture(scope="module", params=["redis", "valkey", "redis6"])
def full(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    if request.param == "redis6":
        request.getfixturevalue("redis6_server")  # skips where there is none
    with RedisServer(flavour=request.param) as server:
        yield server


def test_a_full_server_takes_nobodys_hold_away(full: RedisServer) -> None:
    """-OOM is said to commands that may need memory; a renewal needs none."""
    port = engine(full).blocking(ThreadRuntime())
    held = [claim(kind, **facts) for kind, facts in KINDS.items()]
    for each in held:
        assert isinstance(run(port.attempt(each, 0.0)), Granted)
    run(port.renew(held))  # the script is known
    full.ask("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(BackendError, match="OOM"):
            run(port.attempt(claim("new"), 0.0))
        assert run(port.renew(held)) == [Renewal.HELD] * len(held)
        assert run(port.detach(held[2], 60.0))
    finally:
        full.ask("CONFIG", "SET", "maxmemory", 0)
    assert all(run(port.release(each)) for each in held)
    run(port.close())
