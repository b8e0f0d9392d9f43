"""Breaking a hold by force: its holder is told why, by whichever node it hears of that."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.errors import LeaseLost
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.redlock.reaching import reach_all
from tests.servers.redlock import RedlockNodes

pytestmark = [pytest.mark.redis, pytest.mark.parametrize("colour", list(COLOURS))]
TTL = 30.0


def notes_on(node: Any) -> list[str]:
    return [each.decode() for each in node.ask("KEYS", "*:broken:*")]


def test_the_note_of_any_node_will_do(three: RedlockNodes, colour: str) -> None:
    """Two of three have lost it."""
    paint = COLOURS[colour]()

    async def body() -> None:
        locks: Any = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        admin: Any = paint.locks(open_engine(three.url)[0], Settings("locknut", label="ann"))
        for kept in three.nodes:
            await reach_all(paint, locks, three, "warm")
            lease = await locks.lock("x", ttl=TTL, auto_renew=False).acquire()
            assert await admin.force_release("x", fence=lease.fence, reason="stuck")
            for node in three.nodes:
                (note,) = notes_on(node)
                assert note.startswith("locknut:{x}:redlock:broken:")
                left = node.ask("PTTL", note)
                assert isinstance(left, int)
                assert 0 < left <= (TTL + 1) * 1000
            others = [node for node in three.nodes if node is not kept]
            for node in others:
                node.ask("DEL", *notes_on(node))
            for node in others[:1]:
                node.stop()
            with pytest.raises(LeaseLost, match=r"broken: stuck \(by ann\)"):
                await lease.renew()
            for node in others[:1]:
                node.cont()
            for node in three.nodes:
                for note in notes_on(node):
                    node.ask("DEL", note)
        assert await admin.list() == []
        await admin.close()
        await locks.close()

    paint.run(body())


def test_who_releases_before_it_knows_is_told_why(three: RedlockNodes, colour: str) -> None:
    paint = COLOURS[colour]()

    async def body() -> None:
        locks: Any = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        await reach_all(paint, locks, three, "warm")
        with pytest.raises(LeaseLost, match=r"any more \(broken: stuck\)"):
            async with locks.lock("x", ttl=TTL, auto_renew=False):
                assert await locks.force_release("x", reason="stuck")
        await locks.close()

    paint.run(body())


def test_without_a_note_it_is_as_it_was(three: RedlockNodes, colour: str) -> None:
    paint = COLOURS[colour]()

    async def body() -> None:
        locks: Any = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        await reach_all(paint, locks, three, "warm")
        lease = await locks.lock("x", ttl=TTL, auto_renew=False).acquire()
        assert await locks.force_release("x")
        assert [notes_on(node) for node in three.nodes] == [[], [], []]
        with pytest.raises(LeaseLost, match="taken"):
            await lease.renew()
        await locks.close()

    paint.run(body())
