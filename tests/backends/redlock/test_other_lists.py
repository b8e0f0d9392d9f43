"""Clients that have different lists of nodes are refused: their majorities may have none in common.

One that has the whole list of another, and more, is refused; so is one that has another node in the
place of one, and one whose list overlaps in a single node. What is refused holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import locknut
from locknut import redlock
from locknut.errors import BackendUnavailable, ConfigurationError, LocknutError
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.redlock.cutting_off import TTL
from tests.servers.processes import until
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def six() -> Iterator[RedlockNodes]:
    with RedlockNodes(6) as nodes:
        yield nodes


@pytest.fixture
def fresh(six: RedlockNodes) -> RedlockNodes:
    for node in six.nodes:
        node.flushall()
    return six


def url_of(nodes: RedlockNodes, *which: int, more: str = "") -> str:
    hosts = ",".join(f"{nodes.nodes[at].host}:{nodes.nodes[at].port}" for at in which)
    return f"redlock://{hosts}?max_ttl={TTL:g}{more}"


LISTS = {"grown": (0, 1, 2, 3, 4), "replaced": (0, 1, 3), "overlapping": (2, 3, 4)}


@pytest.mark.parametrize("colour", list(COLOURS))
@pytest.mark.parametrize("durable", [False, True], ids=["", "durable"])
@pytest.mark.parametrize("other", LISTS.values(), ids=LISTS)
def test_another_list_is_refused(
    fresh: RedlockNodes, other: tuple[int, ...], durable: bool, colour: str
) -> None:
    more = "&durable=true" if durable else ""
    paint = COLOURS[colour]()
    redlock.begin(url_of(fresh, 0, 1, 2))

    async def body() -> None:
        ours = paint.locks(open_engine(url_of(fresh, 0, 1, 2, more=more))[0], Settings("locknut"))
        theirs = paint.locks(open_engine(url_of(fresh, *other, more=more))[0], Settings("locknut"))
        async with ours.lock("x", timeout=10):
            refused = 0
            for i in range(50):  # a majority of new nodes may be faster than the one that knows
                try:
                    await theirs.lock(f"warm{i}").acquire(blocking=False)  # never only a re-entry
                except ConfigurationError:
                    refused += 1
                except BackendUnavailable:
                    pass
            assert refused > 40
            with pytest.raises(ConfigurationError, match="list of nodes"):
                await theirs.lock("x").acquire(timeout=0)
        for locks in (ours, theirs):
            await locks.close()
        hold = "locknut:{x}:redlock"

        def held() -> bool:
            return any(node.ask("EXISTS", hold) for node in fresh.nodes)

        until(lambda: not held(), "nothing of it is left")

    paint.run(body())


def test_the_order_and_the_spelling_of_a_list_do_not_matter(fresh: RedlockNodes) -> None:
    redlock.begin(url_of(fresh, 0, 1, 2))
    with locknut.connect(url_of(fresh, 2, 0, 1)) as locks, locks.lock("x", timeout=10):
        pass


def test_other_addresses_of_the_same_nodes_need_a_name(fresh: RedlockNodes) -> None:
    named = url_of(fresh, 0, 1, 2, more="&set_name=one")
    elsewhere = named.replace("127.0.0.1", "localhost")
    redlock.begin(named)
    with locknut.connect(elsewhere) as locks, locks.lock("x", timeout=10):
        pass
    nameless = locknut.connect(elsewhere.replace("&set_name=one", ""))
    with nameless, pytest.raises(ConfigurationError, match="set_name"):
        nameless.lock("x").acquire(timeout=0)
    urls = [f"redis://{node.host}:{node.port}" for node in fresh.nodes[:3]]
    with (
        locknut.connect(redlock.Redlock(urls, max_ttl=TTL, set_name="one")) as locks,
        locks.lock("x", timeout=10),
    ):
        pass


def test_a_list_is_changed_by_an_operator_and_who_has_the_old_one_is_refused(
    fresh: RedlockNodes,
) -> None:
    """Also a renewal: then its hold ends, before anybody else can have it."""
    old, new = url_of(fresh, 0, 1, 2), url_of(fresh, 0, 1, 3)
    redlock.begin(old)
    with locknut.connect(old) as before, locknut.connect(new) as after:
        lease: Any = before.lock("x", ttl=TTL).acquire(timeout=10)
        with pytest.raises(LocknutError, match="force"):
            redlock.begin(new)
        redlock.begin(new, force=True)
        assert lease.lost.wait(20)
        with pytest.raises(ConfigurationError):
            before.lock("y").acquire(timeout=0)
        with after.lock("x", timeout=10):
            pass


@pytest.mark.slow
def test_who_is_refused_by_the_others_does_not_take_a_node_that_forgot(
    fresh: RedlockNodes,
) -> None:
    """A client with another list asks a node that is in quarantine, first and alone."""
    ours, theirs = url_of(fresh, 0, 1, 2), url_of(fresh, 1, 2, 3)
    redlock.begin(ours)
    fresh.nodes[2].flushall()
    with locknut.connect(theirs) as other:
        for _ in range(20):
            with suppress(BackendUnavailable, ConfigurationError):
                other.lock("x").acquire(blocking=False)
    with locknut.connect(ours) as locks:

        def votes() -> bool:
            with locks.lock("x", timeout=10):
                return bool(fresh.nodes[2].ask("HEXISTS", "locknut:redlock", "votes"))

        until(votes, "it votes for those whose node it was")
