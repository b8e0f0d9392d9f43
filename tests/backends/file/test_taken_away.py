"""A hold that is taken away unseen (by a break, or with its file) is noticed at each heartbeat."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import aio

TERMS: list[dict[str, Any]] = [{}, {"ttl": 60}, {"ttl": 60, "auto_renew": False}]
SOON = 10.0
"""Much more than a heartbeat, and much less than a third of the ttl."""


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_a_break_is_noticed_whatever_the_ttl(tmp_path: Path, terms: dict[str, Any]) -> None:
    url = f"file://{tmp_path}"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        lease = locks.lock("x", **terms).acquire()
        assert lease is not None
        assert others.force_release("x")
        assert lease.lost.wait(SOON)
        assert lease.reason == "taken"


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_a_break_is_noticed_on_a_loop(tmp_path: Path, terms: dict[str, Any]) -> None:
    async def story() -> None:
        url = f"file://{tmp_path}"
        async with aio.connect(url) as locks, aio.connect(url) as others:
            lease = await locks.lock("x", **terms).acquire()
            assert lease is not None
            assert await others.force_release("x")
            assert await lease.lost.wait(SOON)
            assert lease.reason == "taken"

    asyncio.run(story())


def test_looking_does_not_renew(tmp_path: Path) -> None:
    """A plain lease of exactly its ttl is looked at, and still ends at its time."""
    with locknut.connect(f"file://{tmp_path}") as locks:
        lease = locks.lock("x", ttl=2.5, auto_renew=False).acquire()
        assert lease is not None
        assert lease.lost.wait(SOON)
        assert lease.reason == "expired"
