"""What every request passes first: is it for us, is the visitor known, what headers it gets."""

from __future__ import annotations

import inspect
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from locknut.dashboard.access import HEADERS, USER, Access

OPEN = ("/static/", "/login")
"""What is shown to everybody: the page that asks for the passphrase, and what it looks like."""


class Door:
    """Wraps the pages."""

    def __init__(self, inside: ASGIApp, access: Access) -> None:
        self._inside = inside
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inside(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = await self._refusal(Request(scope))
        await (refusal or self._inside)(scope, receive, with_headers)

    async def _refusal(self, request: Request) -> Response | None:
        if not self._access.knows_host(request.headers.get("host", "")):
            return PlainTextResponse("This host name is not known here.\n", 421)
        path = route_path(request.scope)
        if self._access.authorize is not None:
            user: Any = self._access.authorize(request.scope)
            user = await user if inspect.isawaitable(user) else user
            if not user:
                return PlainTextResponse("Not allowed.\n", 403)
            request.scope[USER] = str(user)
        if path.startswith(OPEN) or self._access.admits(request):
            return None
        by_hand = "hx-request" not in request.headers and not path.endswith((".json", "/stream"))
        if request.method == "GET" and by_hand:
            return RedirectResponse(f"{request.scope.get('root_path', '')}/login", 303)
        return PlainTextResponse("Log in first.\n", 401)


def route_path(scope: Scope) -> str:
    """The path below the place that the pages are mounted at."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(root) else path
