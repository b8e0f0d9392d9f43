"""A Django site with the dashboard in it, asked by Django's own client; a program of its own,
because Django is configured once per process.
"""

from __future__ import annotations

import re
from typing import Any

import django
from django.conf import settings
from django.http import HttpResponseForbidden
from django.test import Client
from django.urls import include, path

import locknut
from locknut.dashboard import Dashboard, in_django


class Ann:
    """Who is logged in."""

    def get_username(self) -> str:
        return "ann"


def login(respond: Any) -> Any:
    def middleware(request: Any) -> Any:
        request.user = Ann() if request.headers.get("X-Session") == "secret" else None
        return respond(request)

    return middleware


def staff_only(view: Any) -> Any:
    def protected(request: Any, *words: Any, **named: Any) -> Any:
        if request.user is None:
            return HttpResponseForbidden()
        return view(request, *words, **named)

    return protected


urlpatterns: list[Any] = []


def main() -> None:
    settings.configure(
        SECRET_KEY="x" * 50,
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF=__name__,
        MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware", f"{__name__}.login"],
    )
    django.setup()
    with locknut.connect("memory:") as locks:
        dashboard = Dashboard(locks, allow_break=True, refresh=0.05)
        urlpatterns.append(path("ops/locks/", include(in_django.patterns(dashboard, staff_only))))
        lease = locks.lock("x").acquire()
        dashboard.places.all["memory"].look()
        worker = Dashboard(locks, allow_break=True, refresh=0.05)  # as another process has one
        assert worker.access.stamp("x") != dashboard.access.stamp("x")
        in_django.patterns(worker, staff_only)
        assert worker.access.stamp("x") == dashboard.access.stamp("x")
        worker.close()
        visit(Client(enforce_csrf_checks=True), lease)
        assert not locks.info("x").holders
        dashboard.close()
    print("done")


def visit(client: Client, lease: Any) -> None:
    assert client.get("/ops/locks/").status_code == 403
    known = {"HTTP_X_SESSION": "secret"}
    page = client.get("/ops/locks/locks", **known)
    assert page.status_code == 200, page.content
    links = set(re.findall(r'(?:href|src)="(/[^"]*)"', page.content.decode()))
    assert all(each.startswith("/ops/locks/") for each in links), links
    for each in links:
        assert client.get(each.replace("&amp;", "&"), **known).status_code == 200, each
    assert client.get("/ops/locks/stream", **known).status_code == 204
    # So a server that listens at a Unix socket puts it (uvicorn), or so (others).
    for port in ("None", ""):
        at_a_socket = known | {"SERVER_NAME": "/run/site.sock", "SERVER_PORT": port}
        assert client.get("/ops/locks/locks", HTTP_HOST="testserver", **at_a_socket).content
    asked = f"/ops/locks/break?at=memory&name=x&fence={lease.fence}"
    html = client.get(asked, **known).content.decode()
    (stamp,) = re.findall(r'name="stamp" value="(\w+)"', html)
    form = {"at": "memory", "name": "x", "fence": lease.fence, "typed": "x", "reason": "hangs"}
    encoded = "&".join(f"{name}={value}" for name, value in (form | {"stamp": stamp}).items())
    kind = "application/x-www-form-urlencoded"
    forged = client.post("/ops/locks/break", encoded[:-4], content_type=kind, **known)
    assert forged.status_code == 403
    answer = client.post("/ops/locks/break", encoded, content_type=kind, **known)
    assert answer.status_code == 200, answer.content
    assert (
        "hangs (ann, in the dashboard)" in client.get("/ops/locks/events", **known).content.decode()
    )


if __name__ == "__main__":
    main()
