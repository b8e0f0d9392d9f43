"""From a layout that others share to our own, which are two locks: one release takes both."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

import locknut
from tests.migrating.peers import in_a_thread
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
Enter = Callable[[], AbstractContextManager[object]]


@pytest.fixture(params=["redis-py", "redisson"])
def release(
    request: pytest.FixtureRequest, redis_server: RedisServer
) -> Iterator[dict[str, Enter]]:
    """What a process of each release does; each time it is called, another process."""
    name = f"report-{secrets.token_hex(4)}"
    opened: list[locknut.Locks] = []

    def locks(options: str = "") -> locknut.Lock:
        opened.append(locknut.connect(f"{redis_server.url}{options}"))
        return opened[-1].lock(name, ttl=60, timeout=0)

    shared = f"?layout={request.param}"
    yield {
        "sharing": lambda: locks(shared),
        "both": lambda: locknut.all_of(locks(shared), locks(), timeout=0),
        "own": locks,
    }
    for each in opened:
        each.close()


def excludes(holder: Enter, other: Enter) -> bool:
    """In another thread: one that holds some of them may not ask for all again."""
    with holder(), in_a_thread(lambda: busy(other)) as told:
        return bool(told())


def busy(enter: Enter) -> bool:
    try:
        with enter():
            return False
    except locknut.AcquireTimeout:
        return True


@pytest.mark.parametrize(("one", "other"), [("sharing", "both"), ("both", "both"), ("both", "own")])
def test_neighbours_exclude_each_other(release: dict[str, Enter], one: str, other: str) -> None:
    assert excludes(release[one], release[other])
    assert excludes(release[other], release[one])


def test_the_first_and_the_last_do_not(release: dict[str, Enter]) -> None:
    assert not excludes(release["sharing"], release["own"])
    assert not excludes(release["own"], release["sharing"])
