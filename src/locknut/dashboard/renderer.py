"""From the name of a template to a response: the whole page, or only the part that changes."""

from __future__ import annotations

import secrets
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from locknut import __version__
from locknut.dashboard.access import Access, cookie, cookie_name
from locknut.dashboard.observed_places import Places

TITLES = {
    "overview": "Overview",
    "locks": "Locks",
    "graph": "Graph",
    "owners": "Owners",
    "events": "Events",
    "backends": "Backends",
}
"""The pages that the head of each page leads to."""


class Renderer:
    """The templates of one dashboard."""

    def __init__(self, places: Places, access: Access) -> None:
        self._places = places
        self._access = access
        self._environment = Environment(
            loader=PackageLoader("locknut.dashboard"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )

    def live(self, request: Request, name: str, context: dict[str, Any]) -> HTMLResponse:
        """A page whose middle is fetched again at each tick."""
        around = self._around(request, name)
        part = "hx-request" in request.headers and "hx-history-restore-request" not in (
            request.headers
        )
        template = f"{name}.html" if part else "live.html"
        return self._respond(template, around | context | {"part": f"{name}.html"})

    def still(
        self, request: Request, name: str, context: dict[str, Any], status: int = 200
    ) -> HTMLResponse:
        """A page that stays as it is, with a form on it."""
        visit = request.cookies.get(cookie_name(request, "visit")) or secrets.token_urlsafe(24)
        around = self._around(request, name) | {"stamp": self._access.stamp(visit)}
        response = self._respond(f"{name}.html", around | context, status)
        response.set_cookie(**cookie(request, "visit", visit))
        return response

    def _around(self, request: Request, name: str) -> dict[str, Any]:
        at = request.query_params.get("at", "")  # which place the head of the page shows
        return {
            "base": request.scope.get("root_path", ""),
            "titles": TITLES,
            "current": name,
            "title": TITLES.get(name, "Lock"),
            "places": {slug: each.place for slug, each in self._places.all.items()},
            "several": len(self._places.all) > 1,
            "at": at if at in self._places.all else "",
            "refresh": self._places.refresh,
            "allow_break": self._access.allow_break,
            "asks": self._access.asks,
            "version": __version__,
        }

    def _respond(self, template: str, context: dict[str, Any], status: int = 200) -> HTMLResponse:
        text = self._environment.get_template(template).render(context)
        # A name may have half a character in it, where somebody else wrote it into the engine.
        body = text.encode("utf-8", "replace")
        return HTMLResponse(body, status, headers={"vary": "hx-request"})
