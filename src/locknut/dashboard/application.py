"""The dashboard as an ASGI application: its routes, and what each of them answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from locknut.cli.messages import as_json
from locknut.dashboard import chart_series, export, graph_page, overview_page, pages
from locknut.dashboard.access import Access, Authorize, cookie, form_of
from locknut.dashboard.break_form import BreakForm
from locknut.dashboard.door import Door
from locknut.dashboard.observed_places import Places, Source
from locknut.dashboard.renderer import Renderer
from locknut.dashboard.tick_stream import TickStream
from locknut.observer.place_observer import REFRESH

Show = Callable[[Places, QueryParams], dict[str, Any]]
_SLOW_DOWN = 0.5
"""Seconds that a wrong passphrase costs in the form; in a header a guess costs nothing. What keeps
it from being guessed is its length."""


class Dashboard:
    """Pages about the locks of one or several places.

    `allow_break` adds a form that breaks a hold. `authorize` is asked for every request: it returns
    the name of the user, or None, and may be a coroutine function. That name is in the event of a
    break. `secret`: a text that several processes of one server have in common; with it each
    of them takes the forms that another one showed.
    """

    def __init__(
        self,
        *sources: Source,
        allow_break: bool = False,
        authorize: Authorize | None = None,
        refresh: float = REFRESH,
        access: Access | None = None,
        secret: str | None = None,
    ) -> None:
        self.places = Places(sources, refresh, label="dashboard")
        self.access = access or Access(authorize=authorize, allow_break=allow_break, secret=secret)
        self._renderer = Renderer(self.places, self.access)
        self._stream = TickStream(self.places)
        self._inside = Door(Starlette(routes=self._routes()), self.access)

    def start(self) -> None:
        """Begin to observe; the first request does it otherwise."""
        self.places.start()

    def close(self) -> None:
        """Stop observing, and close what was opened here."""
        self.places.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.places.start()
        await self._inside(scope, receive, send)

    def _routes(self) -> list[BaseRoute]:
        shown: dict[str, Show] = {
            "overview": overview_page.shown,
            "locks": pages.locks,
            "graph": graph_page.graph,
            "owners": pages.owners,
            "events": pages.events,
            "backends": pages.backends,
        }
        form = BreakForm(self.places, self.access, self._renderer)
        static = Path(__file__).parent / "static"
        return [
            *(self._page(name, show) for name, show in shown.items()),
            Route("/lock", self._lock),
            Route("/series", self._series),
            self._export("overview.json", export.first_page),
            self._export("locks.json", export.all_locks),
            Route("/stream", self._stream.respond),
            Route("/break", form.ask, methods=["GET"]),
            Route("/break", form.perform, methods=["POST"]),
            Route("/login", self._ask, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Mount("/static", StaticFiles(directory=static)),
        ]

    def _page(self, name: str, show: Show) -> Route:
        async def respond(request: Request) -> Response:
            return self._renderer.live(request, name, show(self.places, request.query_params))

        return Route("/" if name == "overview" else f"/{name}", respond)

    def _export(self, name: str, show: Show) -> Route:
        async def respond(request: Request) -> Response:
            # Many locks take a while: the pages of others go on meanwhile.
            found = await asyncio.to_thread(show, self.places, request.query_params)
            return Response(as_json(found) + "\n", media_type="application/json")

        return Route(f"/{name}", respond)

    async def _lock(self, request: Request) -> Response:
        at, name = request.query_params.get("at", ""), request.query_params.get("name", "")
        observer = self.places.of(at)
        if observer is None or not name:
            return PlainTextResponse("There is no such lock.\n", 404)
        return self._renderer.live(request, "lock", pages.lock(observer, at, name))

    async def _series(self, request: Request) -> Response:
        return JSONResponse(chart_series.series(self.places, request.query_params))

    async def _ask(self, request: Request) -> Response:
        return self._renderer.still(request, "login", {"problem": ""})

    async def _log_in(self, request: Request) -> Response:
        form = await form_of(request)
        given = form.get("passphrase", "")
        if not self.access.is_ours(request, form.get("stamp", "")):
            return self._renderer.still(request, "login", {"problem": "Please try again."}, 403)
        if not self.access.accepts(given):
            await asyncio.sleep(_SLOW_DOWN)
            problem = "That is not the passphrase."
            return self._renderer.still(request, "login", {"problem": problem}, 403)
        response = RedirectResponse(f"{request.scope.get('root_path', '')}/", 303)
        response.set_cookie(**cookie(request, "session", self.access.new_session()))
        return response
