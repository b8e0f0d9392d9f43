"""The page of the admin that lists locks, and breaks a hold by the fence that was on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString

from locknut import Holder, LockInfo, LocknutError
from locknut.contrib.django.configured_locks import locks, option
from locknut.contrib.django.models import Lock

BREAK = "locknut.break_lock"
MOST = 500
"""Rows of one page."""


class Row(NamedTuple):
    """A hold, or a lock that is only waited for."""

    name: str
    waiting: int
    holder: Holder | None = None
    since: datetime | None = None


@admin.register(Lock)
class LockAdmin(admin.ModelAdmin):  # type: ignore[misc]  # Django has no types
    """Looks by `view_lock`, breaks by `break_lock`; there is nothing else to do here."""

    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False

    def has_view_permission(self, request: Any, *_: Any) -> bool:
        return bool(request.user.has_perm("locknut.view_lock") or request.user.has_perm(BREAK))

    def get_urls(self) -> list[Any]:
        """A lock has no page of its own, nor a history of what was done to it here."""
        site = self.admin_site
        return [
            path("", site.admin_view(self.changelist_view), name="locknut_lock_changelist"),
            path("break/", site.admin_view(self.break_view), name="locknut_lock_break"),
        ]

    def changelist_view(self, request: Any, *_: Any) -> Any:
        """List what is held or waited for; `?q=order:*` lists a part."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        pattern = request.GET.get("q", "").strip()
        rows, problem, place = [], "", ""
        try:
            place = locks().place
            rows = [row for info in locks().list(pattern or None) for row in _rows(info)]
        except LocknutError as error:
            problem = str(error)
        return self._page(
            request,
            "change_list",
            "Locks",
            rows=rows[:MOST],
            left_out=max(0, len(rows) - MOST),
            problem=problem,
            place=place,
            pattern=pattern,
            may_break=request.user.has_perm(BREAK),
            dashboard=option("DASHBOARD", ""),
        )

    def break_view(self, request: Any) -> Any:
        """Ask first (GET), then break that one hold (POST)."""
        if not request.user.has_perm(BREAK):
            raise PermissionDenied
        if request.method not in {"GET", "POST"}:
            return HttpResponseNotAllowed(["GET", "POST"])
        given = request.POST if request.method == "POST" else request.GET
        name, fence = given.get("name", ""), given.get("fence", "")
        reason = given.get("reason", "").strip()
        if not name or not fence.isdecimal():
            self.message_user(request, "Choose a lock from the list.", messages.ERROR)
        elif request.method == "GET" or not reason:
            return self._page(request, "break_lock", "Break a lock", name=name, fence=fence)
        else:
            self._break(request, name, int(fence), reason)
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:locknut_lock_changelist"))

    def _break(self, request: Any, name: str, fence: int, reason: str) -> None:
        by = f"{reason} ({request.user.get_username()}, in the admin)"
        try:
            broken = locks().force_release(name, fence, reason=by)
        except LocknutError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        if broken:
            self.message_user(request, f"The hold {fence} of {name} is broken.", messages.SUCCESS)
        else:
            said = f"Nothing was broken: {name} is not held with the fence {fence} any more."
            self.message_user(request, said, messages.WARNING)

    def _page(self, request: Any, template: str, title: str, **given: Any) -> TemplateResponse:
        shown = {
            **self.admin_site.each_context(request),
            "title": title,
            "subtitle": None,
            "opts": self.opts,
            "media": SafeString(""),
            **given,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, f"admin/locknut/lock/{template}.html", shown)


def _rows(info: LockInfo) -> Iterator[Row]:
    waiting = len(info.waiters)
    for holder in info.holders:
        since = None if holder.since is None else datetime.fromtimestamp(holder.since, UTC)
        yield Row(info.name, waiting, holder, since)
    if not info.holders:
        yield Row(info.name, waiting)
