"""Listing many locks: few waits, no request for what is not there, and the same as of one lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from locknut.backends.zookeeper import contenders
from locknut.core.values import LockInfo
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from tests.backends.zookeeper.conftest import Traffic, engine

pytestmark = [pytest.mark.zookeeper, pytest.mark.parametrize("colour", list(COLOURS))]
MANY = 1_100
ID = "_c_aaaaaaaa-89ab-cdef-0123-456789abcdef-"


def folder(url: str, *parts: str) -> str:
    return "/".join(("", url.rpartition("/")[2], "locknut", *parts))


def put(kazoo: KazooClient, url: str, *nodes: str) -> None:
    """Nodes of other clients, below the namespace's; all of them in one go."""
    kazoo.ensure_path(folder(url))
    above = {node[:end] for node in nodes for end in range(len(node)) if node[end] == "/"}
    for made in (sorted(above), nodes):
        for done in [kazoo.create_async(folder(url, each)) for each in made]:
            with suppress(NodeExistsError):
                done.get()


def told(url: str, colour: str, ask: Callable[[Any, Traffic], Any]) -> Any:
    """By a client that is connected; with what it sends."""
    paint = COLOURS[colour]()

    async def story() -> Any:
        locks: Any = paint.locks(engine(url), Settings("locknut"))
        await locks.info("warm")
        answer = await ask(locks, Traffic(locks._client.backend.session))
        await locks.close()
        return answer

    return paint.run(story())


def test_many_locks_are_a_few_waits_and_two_requests_each(
    url: str, colour: str, kazoo: KazooClient
) -> None:
    put(kazoo, url, *(f"job {number}/{ID}lock-0000000000" for number in range(MANY)))

    async def listing(locks: Any, traffic: Traffic) -> tuple[list[LockInfo], list[list[str]]]:
        return await locks.list(), traffic.batches

    found, batches = told(url, colour, listing)
    assert {each.name for each in found} == {f"job {number}" for number in range(MANY)}
    assert all(len(each.holders) == 1 for each in found)
    rounds = -(-MANY // contenders.BATCH)
    assert len(batches) == 2 + 2 * rounds
    assert sum(map(len, batches)) == 3 + 2 * MANY, "what is not there is not asked for"
    assert max(map(len, batches)) <= contenders.BATCH, "other callers wait behind no more"


def test_one_lock_is_two_waits(url: str, colour: str, crowd: list[str]) -> None:
    async def looking(locks: Any, traffic: Traffic) -> list[list[str]]:
        for name in crowd:
            await locks.info(name)
        return traffic.batches

    batches = told(url, colour, looking)
    assert len(batches) == 2 * len(crowd)
    assert batches[::2] == [["Sync", *["GetChildren"] * 3]] * len(crowd)


@pytest.fixture
def crowd(url: str, kazoo: KazooClient) -> list[str]:
    """All that may stand there, by hand: of Curator, of kazoo, of nobody."""
    put(
        kazoo,
        url,
        f"mutex/{ID}lock-0000000007",
        f"mutex/{ID}lock-0000000003",
        "mutex/not a contender",
        f"readers/{ID}__READ__0000000001",
        f"readers/{ID}__READ__0000000002",
        f"readers/{ID}__WRIT__0000000003",
        f"readers/{ID}__READ__0000000004",
        f"kazoos/{'a' * 32}__lock__0000000001",
        f"kazoos/{'b' * 32}__rlock__0000000002",
        f"permits/locks/{ID}lock-0000000002",
        f"permits/leases/{ID}lease-0000000000",
        f"permits/leases/{ID}lease-0000000001",
        f"both/{ID}lock-0000000000",
        f"both/leases/{ID}lease-0000000000",
        f"waiting only/locks/{ID}lock-0000000000",
        "free",
        "foreign/config",
    )
    return ["both", "kazoos", "mutex", "permits", "readers", "waiting only"]


def test_a_list_says_of_each_what_is_said_of_one(url: str, colour: str, crowd: list[str]) -> None:
    async def both(locks: Any, _: Traffic) -> tuple[list[LockInfo], list[LockInfo]]:
        held = [await locks.lock("ours").acquire(), await locks.semaphore("ours", 3).acquire()]
        held.append(await locks.rwlock("we read").read().acquire())
        answer = await locks.list(), [await locks.info(name) for name in names]
        for each in held:
            await each.release()
        return answer

    names = sorted([*crowd, "ours", "we read"])
    listed, one_by_one = told(url, colour, both)
    assert [each.name for each in listed] == names
    assert listed == one_by_one
    counts = {each.name: (len(each.holders), len(each.waiters)) for each in listed}
    assert counts == {
        "mutex": (1, 1),
        "readers": (2, 2),
        "kazoos": (1, 1),
        "permits": (1, 1),
        "both": (2, 0),
        "waiting only": (0, 1),
        "ours": (2, 0),
        "we read": (1, 0),
    }


@contextmanager
def before_step(locks: Any, number: int, happens: Callable[[], object]) -> Iterator[None]:
    """Something happens before so many requests are sent together for the so many-th time."""
    session = locks._client.backend.session
    send, seen = session.send, [0]

    def late(requests: Any, done: Any) -> Any:
        seen[0] += 1
        if seen[0] == number:
            happens()
        return send(requests, done)

    session.send = late
    yield
    session.send = send


def listed_while(url: str, colour: str, number: int, happens: Callable[[], object]) -> Any:
    async def listing(locks: Any, _: Traffic) -> dict[str, LockInfo]:
        with before_step(locks, number, happens):
            return {each.name: each for each in await locks.list()}

    return told(url, colour, listing)


def test_who_goes_between_two_steps_is_left_out(
    url: str, colour: str, kazoo: KazooClient, crowd: list[str]
) -> None:
    """The names are known by then, and the nodes are not read yet."""

    def gone() -> None:
        for each in ("both", "mutex", f"permits/leases/{ID}lease-0000000001"):
            kazoo.delete(folder(url, each), recursive=True)
        kazoo.delete(folder(url, f"readers/{ID}__READ__0000000001"))

    found = listed_while(url, colour, 5, gone)
    assert sorted(found) == sorted(set(crowd) - {"both", "mutex"})
    assert len(found["readers"].holders) == 1
    assert len(found["readers"].waiters) == 2
    assert len(found["kazoos"].holders) == 1


def test_a_lock_that_goes_before_it_is_looked_at_is_left_out(
    url: str, colour: str, kazoo: KazooClient, crowd: list[str]
) -> None:
    def gone() -> None:
        kazoo.delete(folder(url, "mutex"), recursive=True)

    assert sorted(listed_while(url, colour, 3, gone)) == sorted(set(crowd) - {"mutex"})


def test_who_gets_the_first_permit_meanwhile_is_not_missed(
    url: str, colour: str, kazoo: KazooClient, crowd: list[str]
) -> None:
    """The node of the leases was not there when the lock's own node was looked at."""

    def moves_up() -> None:
        put(kazoo, url, f"waiting only/leases/{ID}lease-0000000000")
        kazoo.delete(folder(url, f"waiting only/locks/{ID}lock-0000000000"))

    found = listed_while(url, colour, 4, moves_up)
    assert sorted(found) == crowd
    assert len(found["waiting only"].holders) == 1
    assert not found["waiting only"].waiters
