"""Whose turn it is, between several Locks: with `fair=True` strictly who came first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from locknut.core import queueing
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part


class Order(Part):
    """For every engine with `fair`."""

    @pytest.mark.parametrize("fair", [False, True])
    async def test_a_process_passes_it_on_to_its_own_unless_fair(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch, fair: bool
    ) -> None:
        """Another process came first, and then one more of the holder's own."""
        monkeypatch.setattr(queueing, "COHORT_SECONDS", 60.0)  # or it would be over by then
        ours, others = scene.connect(), scene.connect()
        order: list[str] = []

        async def take(locks: Any, who: str) -> None:
            async with locks.lock("x", fair=fair):
                order.append(who)

        async with ours.lock("x", fair=fair):
            theirs, mine = scene.news(others), scene.news(ours)
            crowd = [scene.spawn(lambda: take(others, "another process"))]
            await theirs.heard("waiting")
            crowd.append(scene.spawn(lambda: take(ours, "its own")))
            await mine.heard("waiting")
        for each in crowd:
            await each.result()
        assert order == (["another process", "its own"] if fair else ["its own", "another process"])


class TestOnMemory(Order):
    @pytest.fixture
    def engine_url(self) -> str:
        return "memory:order"


class TestOnFile(Order):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}"
