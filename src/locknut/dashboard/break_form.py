"""Breaking a lock: a page that asks, and a form that breaks the hold which that page showed.

The form carries the fence that was on the screen. A lock that changed hands since then is left
alone: the engine compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from locknut.cli.messages import plain, span, who
from locknut.dashboard.access import USER, Access, form_of
from locknut.dashboard.observed_places import Places
from locknut.dashboard.renderer import Renderer
from locknut.errors import LocknutError, StaleFence
from locknut.observer.place_observer import PlaceObserver

_LONGEST_REASON = 200
_LONGEST_FENCE = 100
"""Digits: what has more is no number of ours, and Python does not read any number of them."""


class Target(NamedTuple):
    """The hold that is meant."""

    at: str
    observer: PlaceObserver
    name: str
    fence: int


class BreakForm:
    """The two steps. Without `allow_break` neither of them is there."""

    def __init__(self, places: Places, access: Access, renderer: Renderer) -> None:
        self._places = places
        self._access = access
        self._renderer = renderer

    async def ask(self, request: Request) -> Response:
        """Show what is about to be broken, and what that means."""
        if not self._access.allow_break:
            return PlainTextResponse("This dashboard is read-only.\n", 403)
        target = self._target(request.query_params)
        if target is None:
            return PlainTextResponse("There is no such lock.\n", 404)
        return self._show(request, target)

    async def perform(self, request: Request) -> Response:
        """Break it, if it is still the one, and if the form is ours."""
        if not self._access.allow_break:
            return PlainTextResponse("This dashboard is read-only.\n", 403)
        form = await form_of(request)
        if not self._access.is_ours(request, form.get("stamp", "")):
            return PlainTextResponse("This form is not from here: open the page again.\n", 403)
        target = self._target(form)
        if target is None:
            return PlainTextResponse("There is no such lock.\n", 404)
        reason = " ".join(form.get("reason", "").split())[:_LONGEST_REASON]
        if form.get("typed", "").strip() != target.name.strip():
            return self._show(request, target, "The name that you typed is another one.", 422)
        if not reason:
            return self._show(request, target, "Say why: the holder will read it.", 422)
        user = request.scope.get(USER, "")
        why = f"{reason} ({user}, in the dashboard)" if user else f"{reason} (in the dashboard)"
        return await self._break(request, target, why)

    async def _break(self, request: Request, target: Target, why: str) -> Response:
        name, fence = target.name, target.fence
        try:
            broken = await run_in_threadpool(target.observer.break_hold, name, fence, why)
        except StaleFence as changed:
            message = f"Nothing was broken: the lock changed hands. {changed.message}."
            return self._show(request, target, message, 409, done=True)
        except LocknutError as error:
            return self._show(request, target, f"Nothing was broken: {error}", 502)
        if not broken:
            return self._show(request, target, "Nobody holds this lock any more.", 409, done=True)
        message = f"Broken: fence {fence} does not hold it any more."
        return self._show(request, target, message, done=True, good=True)

    def _target(self, given: Mapping[str, str]) -> Target | None:
        at, name, number = (given.get(each, "") for each in ("at", "name", "fence"))
        observer = self._places.of(at)
        if (
            observer is None
            or not name
            or not (number.isdecimal() and len(number) < _LONGEST_FENCE)
        ):
            return None
        return Target(at, observer, name, int(number))

    def _show(  # what the page says
        self,
        request: Request,
        target: Target,
        message: str = "",
        status: int = 200,
        *,
        done: bool = False,
        good: bool = False,
    ) -> Response:
        observer = target.observer
        found = next((each for each in observer.picture.locks if each.name == target.name), None)
        holders = () if found is None else found.holders
        holder = next((each for each in holders if each.fence == target.fence), None)
        since = None if holder is None else holder.since
        context = {
            "at": target.at,
            "name": target.name,
            "shown": plain(target.name),
            "fence": target.fence,
            "place": observer.place,
            "holder": "" if holder is None else who(holder),
            "lasted": "" if since is None else span(max(0.0, observer.now() - since)),
            "message": message,
            "done": done,
            "good": good,
        }
        return self._renderer.still(request, "break", context, status)
