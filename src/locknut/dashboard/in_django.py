"""The dashboard inside a Django site, behind the site's own login; under WSGI as well as ASGI.

>>> # urls.py
>>> # pages = Dashboard("redis://localhost")
>>> # path("locks/", include(in_django.patterns(pages, staff_member_required)))

A page asks for what changed every few seconds here: a connection that stays open would keep a
thread of the server busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.http import HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from locknut.dashboard.access import USER

if TYPE_CHECKING:
    from locknut.dashboard.application import Dashboard

View = Callable[..., Any]


def patterns(dashboard: Dashboard, protect: Callable[[View], View]) -> list[Any]:
    """What `include` takes. `protect` is the decorator that decides who may look, as
    `staff_member_required` or `permission_required(...)`.
    """
    dashboard.start()
    # Any worker may get the form that another one showed.
    dashboard.access.share(str(settings.SECRET_KEY))

    def view(request: Any, below: str) -> Any:
        if below == "stream":
            return HttpResponse(status=204)  # a browser does not ask again
        return asyncio.run(_respond(dashboard, request, below))

    # Our forms carry a stamp of their own, which Django does not know.
    return [re_path(r"^(?P<below>.*)$", csrf_exempt(protect(view)))]


async def _respond(dashboard: Dashboard, request: Any, below: str) -> Any:
    sent: list[dict[str, Any]] = []
    unread = [request.body]

    async def receive() -> dict[str, Any]:
        if not unread:  # it never goes away: whoever waits for that is cancelled in the end
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await dashboard(_scope(request, below), receive, send)
    start, *rest = sent
    response = HttpResponse(
        b"".join(each.get("body", b"") for each in rest), status=start["status"]
    )
    for name, value in start["headers"]:
        if name == b"set-cookie":
            response.cookies.load(value.decode("latin-1"))
        else:
            response[name.decode("latin-1")] = value.decode("latin-1")
    return response


def _scope(request: Any, below: str) -> dict[str, Any]:
    path = request.path
    root = path[: len(path) - len(below)].rstrip("/")
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers.items()
    ]
    port = str(request.META.get("SERVER_PORT"))  # "None" at a Unix socket
    user = request.user.get_username() if getattr(request, "user", None) is not None else ""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": path,
        "raw_path": path.encode(),
        "root_path": root,
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1"),
        "headers": headers,
        "client": (request.META.get("REMOTE_ADDR", ""), 0),
        "server": (request.META.get("SERVER_NAME", ""), int(port) if port.isdecimal() else 0),
        USER: user,
    }
