"""Server-sent events: one tick after each listing. What changed is fetched by the page itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from locknut.dashboard.observed_places import Places

MOST_VIEWERS = 200
"""Open pages at a time: each keeps a connection."""
HEARTBEAT = 15.0
"""Seconds: proxies close what is silent for long."""


class TickStream:
    """The ticks of one dashboard."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._viewers = 0

    async def respond(self, _request: Request) -> Response:
        if self._viewers >= MOST_VIEWERS:
            return PlainTextResponse("Too many pages are open.\n", 503)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._ticks(), media_type="text/event-stream", headers=headers)

    async def _ticks(self) -> AsyncIterator[str]:
        loop, rung = asyncio.get_running_loop(), asyncio.Event()

        def ring() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there any more
                loop.call_soon_threadsafe(rung.set)

        stop = self._places.view(ring)
        self._viewers += 1
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    await asyncio.wait_for(rung.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                rung.clear()
                version = sum(each.picture.version for each in self._places.all.values())
                yield f"event: tick\ndata: {version}\n\n"
        finally:
            self._viewers -= 1
            stop()
