"""One node in the place of another: what a detached hold is worth, and where an owner's claims
go."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

import locknut
from locknut.backends.zookeeper import contenders, node_swaps
from locknut.core.values import Granted
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.zookeeper.conftest import children, claim, engine

pytestmark = pytest.mark.zookeeper
TTL = 0.3


def test_nobody_but_our_own_waiters_counts_the_ttl_of_a_detached_hold(
    url: str, kazoo: KazooClient
) -> None:
    """kazoo's lock waits behind it for longer than that, and it can still be taken over."""
    path = f"/{url.rpartition('/')[2]}/locknut/x"
    with locknut.connect(f"{url}?layout=kazoo") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        text = lease.detach(ttl=TTL)
        with pytest.raises(LockTimeout):
            kazoo.Lock(path).acquire(timeout=4 * TTL)
        (node,) = children(kazoo, path)
        assert kazoo.exists(f"{path}/{node}").ephemeralOwner == 0
        with locks.attach(text) as again:
            assert again.fence == lease.fence
            (node,) = children(kazoo, path)
            assert kazoo.exists(f"{path}/{node}").ephemeralOwner != 0


def test_a_hold_is_detached_for_thirty_days_at_most(url: str) -> None:
    days = 86400
    with locknut.connect(url) as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        with pytest.raises(locknut.ConfigurationError, match="ttl"):
            lease.detach(ttl=31 * days)
        with locks.attach(lease.detach(ttl=30 * days)):
            pass


@pytest.mark.parametrize("gone", [False, True])
def test_a_claim_stands_beside_its_owners_other_one_only_while_that_is_there(
    url: str, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """Released between the look at it and the step beside it: then the claim has its own place."""
    port, other = engine(url).blocking(ThreadRuntime()), engine(url).blocking(ThreadRuntime())
    first, second = claim(owner="me"), claim(owner="me")
    before = run(other.attempt(first, 0.0))
    assert isinstance(before, Granted)
    raw_of = contenders.raw_of

    def late(*found: Any) -> int:
        if gone:
            run(other.release(first))
        return raw_of(*found)

    monkeypatch.setattr(contenders, "raw_of", late)
    after = run(port.attempt(second, 0.0))
    assert isinstance(after, Granted)
    assert (after.raw > before.raw) == gone
    assert (after.raw == before.raw) != gone
    for each, backend in ((first, other), (second, port)):
        run(backend.release(each))
        run(backend.close())


def test_the_first_sights_of_detached_holds_do_not_pile_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that was attached while a waiter looked elsewhere stayed for ever."""
    monkeypatch.setattr(node_swaps, "MOST_SEEN", 4)
    port, other = (engine(url).blocking(ThreadRuntime()) for _ in range(2))
    for number in range(9):
        held, attached, waiter = (claim(f"x{number}") for _ in range(3))
        assert isinstance(run(other.attempt(held, 0.0)), Granted)
        assert run(other.detach(held, 600.0))
        assert not isinstance(run(port.attempt(waiter, 0.0)), Granted)
        assert run(other.attach(held, attached))
        assert run(other.release(attached))
        run(port.release(waiter))
    assert len(port.session.detached) <= 5
    run(port.close())
    run(other.close())
