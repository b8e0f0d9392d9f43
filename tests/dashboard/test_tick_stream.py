"""The connection by which a page hears of each listing: it leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import locknut
from locknut.dashboard import Dashboard, tick_stream

SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "GET",
    "path": "/stream",
    "root_path": "",
    "query_string": b"",
    "headers": [(b"host", b"localhost")],
    "server": ("localhost", 8437),
}


class Page:
    """An open page: what it was sent, until it goes away."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.status = 0
        self.heard = ""
        self._gone = asyncio.Event()
        self._news = asyncio.Condition()
        self._open = asyncio.create_task(dashboard(dict(SCOPE), self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        async with self._news:
            self.status = message.get("status", self.status)
            self.heard += message.get("body", b"").decode()
            self._news.notify_all()

    async def hears(self, told: Callable[[], object]) -> None:
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(told), 60.0)

    async def leave(self) -> None:
        self._gone.set()
        await asyncio.wait_for(self._open, 60.0)


def watched(locks: locknut.Locks, story: Callable[[Dashboard], Any]) -> Dashboard:
    with closing(Dashboard(locks, refresh=0.02)) as dashboard:
        asyncio.run(story(dashboard))
        return dashboard


def listeners(dashboard: Dashboard) -> int:
    (observer,) = dashboard.places.all.values()
    return len(observer._viewers._rings)


def test_pages_that_go_away_are_forgotten(locks: locknut.Locks) -> None:
    async def story(dashboard: Dashboard) -> None:
        pages = [Page(dashboard) for _ in range(20)]
        for each in pages:
            await each.hears(lambda page=each: page.heard.count("event: tick") >= 3)  # type: ignore[misc]
        assert listeners(dashboard) == 20
        for each in pages:
            await each.leave()

    dashboard = watched(locks, story)
    assert listeners(dashboard) == 0
    assert dashboard._stream._viewers == 0


def test_there_is_room_for_so_many_and_again_when_one_has_left(
    locks: locknut.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick_stream, "MOST_VIEWERS", 1)

    async def story(dashboard: Dashboard) -> None:
        first, second = Page(dashboard), None
        await first.hears(lambda: "event: tick" in first.heard)
        second = Page(dashboard)
        await second.hears(lambda: second.status)
        assert second.status == 503
        await first.leave()
        third = Page(dashboard)
        await third.hears(lambda: "event: tick" in third.heard)
        await third.leave()

    watched(locks, story)


def test_a_loop_that_is_over_stops_no_observer(locks: locknut.Locks) -> None:
    """As where a server was ended in the middle of a tick."""
    with closing(Dashboard(locks, refresh=0.02)) as dashboard:
        (observer,) = dashboard.places.all.values()

        async def story() -> None:
            page = Page(dashboard)
            await page.hears(lambda: "event: tick" in page.heard)
            rings.extend(observer._viewers._rings)

        rings: list[Callable[[], object]] = []
        asyncio.run(story())
        for ring in rings:
            ring()
        assert rings
