"""What a node could not be told when a claim was released, it is told as soon as it can be reached,
also by a client that has nothing more to ask.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from locknut.backends.redlock.debts import RepayingBackend
from locknut.backends.redlock.nodes import Node, NodeSet
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.rounds import PATIENCE
from locknut.core.values import Claim
from locknut.opening import Settings
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.testing.conformance.colours import COLOURS
from locknut.testing.proxy import FaultProxy
from locknut.urls import open_engine
from tests.backends.redlock.reaching import reach_all
from tests.servers.redlock import RedlockNodes

if TYPE_CHECKING:
    from locknut.drivers.redis.endpoints import Endpoint

HOLD = "locknut:{x}:redlock"
BOTH = pytest.mark.parametrize("colour", list(COLOURS))
TTL = 60.0


@pytest.mark.redlock
@BOTH
def test_a_vote_is_taken_back_though_nobody_asks_for_anything(
    three: RedlockNodes, colour: str
) -> None:
    """It stayed until its ttl had run out: for so long the lock was one node short."""
    paint = COLOURS[colour]()
    node = three.nodes[0]

    async def body(broken: FaultProxy) -> None:
        others = three.hosts.partition(",")[2]
        url = f"redlock://127.0.0.1:{broken.port},{others}?durable=true"
        locks = paint.locks(open_engine(url)[0], Settings("locknut"))
        await reach_all(paint, locks, three, "warm")
        lease = await locks.lock("x", ttl=TTL, auto_renew=False).acquire()
        for _ in range(600):
            if node.ask("EXISTS", HOLD):
                break
            await paint.pause(0.05)
        assert node.ask("EXISTS", HOLD)
        broken.refuse()
        broken.cut()
        await paint.pause(0.05)  # so that it is noticed before the release is sent
        await lease.release()
        assert node.ask("EXISTS", HOLD)  # it could not be told
        broken.heal()
        for _ in range(600):
            if not node.ask("EXISTS", HOLD):
                break
            await paint.pause(0.05)
        assert not node.ask("EXISTS", HOLD)
        await locks.close()

    with FaultProxy((node.host, node.port)) as broken:
        paint.run(body(broken))


def test_it_is_tried_now_and_then_and_only_as_long_as_there_is_a_debt() -> None:
    clock = [100.0]
    node = Node(0, cast("Endpoint", _Place()), TTL, lambda: clock[0])
    rings: list[float] = []
    node.on_debt = lambda: rings.append(clock[0])
    assert node.settles_at == float("inf")
    node.owe(Claim("x", secrets.token_hex(16), ttl=TTL), clock[0])
    first = node.settles_at
    assert rings == [100.0]
    assert 100.0 < first < 101.0
    clock[0] = 100.1
    node.owe(Claim("y", secrets.token_hex(16), ttl=TTL), clock[0])
    assert node.settles_at == first  # more debts do not put it off
    assert rings == [100.0]  # nor do they wake the keeper, whose own commands make debts
    clock[0] = first
    node.settle_later()
    assert node.settles_at >= first + 1.0
    for _ in range(9):
        node.unreached(OSError())
    assert not node.reachable()
    assert node.settles_at >= first + 1.0
    node.reached()
    assert len(list(node.debts())) == 2
    assert node.settles_at == float("inf")


def test_a_debt_that_is_made_while_another_is_struck_off_wakes_the_keeper() -> None:
    class StruckOff(deque[Any]):
        def append(self, debt: Any) -> None:
            self.clear()  # by another thread, which repays the one before
            super().append(debt)

    node = Node(0, cast("Endpoint", _Place()), TTL, lambda: 100.0)
    node.owe(Claim("x", secrets.token_hex(16), ttl=TTL), 100.0)
    rings: list[bool] = []
    node.on_debt = lambda: rings.append(True)
    node._debts = StruckOff(node._debts)
    node.owe(Claim("y", secrets.token_hex(16), ttl=TTL), 100.0)
    assert rings


def test_repaying_takes_no_longer_than_a_command() -> None:
    """However long a node may take by its `node_timeout`: it is the keeper that waits."""
    node_limit = TTL / 4
    waits: list[float] = []

    class Notes(RepayingBackend):
        async def _ask(self, questions: Any, heard: Any, until: Callable[[], float]) -> None:
            del heard
            assert len(questions) == 1
            waits.append(until() - 100.0)

        def _tell(self, questions: Any) -> None:
            raise AssertionError

    runtime = ThreadRuntime(lambda: 100.0)
    nodes = NodeSet([cast("Endpoint", _Place())] * 3, TTL, runtime.now)
    recipe = Recipe(max_ttl=TTL, durable=True, set_id="x")
    nodes.nodes[0].owe(Claim("x", secrets.token_hex(16), ttl=TTL), 99.0)
    nodes.nodes[0]._settles_at = 100.0
    run(Notes(nodes, recipe, node_limit, runtime).settle())
    assert waits == [PATIENCE]


class _Place:
    settings: Any = type("Settings", (), {"place": "here"})
