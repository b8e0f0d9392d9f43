"""What is told of a lock: the view of the majority, and every node's own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from locknut.cli.ls import card, facts_of
from locknut.core.values import LockInfo
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis


def places(nodes: RedlockNodes) -> list[str]:
    return [f"{node.host}:{node.port}" for node in nodes.nodes]


async def info_of_all(lease: Any) -> LockInfo:
    """Once the last votes are there too: they may come after the lease."""
    give_up = time.monotonic() + 30
    while True:
        info: LockInfo = await lease.info()
        if all(vote.agrees for vote in info.details):
            return info
        assert time.monotonic() < give_up, info.details


@pytest.mark.parametrize("colour", list(COLOURS))
def test_a_lease_shows_the_vote_of_every_node(five: RedlockNodes, colour: str) -> None:
    paint = COLOURS[colour]()
    told: list[LockInfo] = []

    async def body() -> None:
        locks: Any = paint.locks(open_engine(five.url)[0], Settings("locknut"))
        async with locks.lock("warm"):
            pass
        async with locks.lock("x") as lease:
            hold = f"locknut:{{{lease.name}}}:redlock"
            told.append(await info_of_all(lease))
            five.nodes[0].kill()
            five.nodes[1].ask("DEL", hold)
            told.append(await lease.info())
            told.append(await locks.info("x"))
            five.nodes[0].start()
        await locks.close()

    paint.run(body())
    well, *ill = told
    assert [vote.place for vote in well.details] == places(five)
    for vote in well.details:
        assert not vote.problem
        # A node that voted, but has seen a larger number, knows the hold without one.
        assert [holder.fence for holder in vote.holders] in ([well.holders[0].fence], [None])
    for info in ill:
        dead, forgot, *others = info.details
        assert info.locked, "three of five know it"
        assert (dead.agrees, dead.holders) == (False, ())
        assert dead.problem
        assert (forgot.agrees, forgot.holders, forgot.problem) == (False, (), "")
        assert all(vote.agrees and vote.holders for vote in others)


def test_the_command_line_shows_who_disagrees(five: RedlockNodes) -> None:
    paint = COLOURS["blocking"]()
    five.nodes[0].kill()

    async def body() -> LockInfo:
        locks: Any = paint.locks(open_engine(five.url)[0], Settings("locknut"))
        async with locks.lock("x") as lease:
            found: LockInfo = await lease.info()
        await locks.close()
        return found

    info = paint.run(body())
    lines = card(info, "redlock:3").splitlines()
    assert sum("held by" in line for line in lines) == 1
    assert any(line.startswith(f"  but {places(five)[0]}: ") for line in lines)
    assert '"claim"' not in str(facts_of(info, "redlock:3"))
    details = facts_of(info, "redlock:3")["details"]
    assert isinstance(details, list)
    assert [each["place"] for each in details] == places(five)
    assert not details[0]["agrees"]
