"""The dashboard inside other applications, with their own login: FastAPI, Starlette, Django."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import locknut
from locknut.dashboard import Dashboard
from tests.dashboard.test_access import stamp_in
from tests.dashboard.visitors import Visitor
from tests.observer.people import held

USERS = {"secret-of-ann": "ann"}


def authorize(scope: Any) -> str | None:
    headers = dict(scope["headers"])
    return USERS.get(headers.get(b"x-session", b"").decode())


async def authorize_later(scope: Any) -> str | None:
    return authorize(scope)


@pytest.fixture
def dashboard(locks: locknut.Locks) -> Iterator[Dashboard]:
    made = Dashboard(locks, authorize=authorize, allow_break=True, refresh=0.05)
    yield made
    made.close()


def applications(dashboard: Dashboard) -> Iterator[Any]:
    yield Starlette(routes=[Mount("/ops/locks", dashboard)])
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()
    app.mount("/ops/locks", dashboard)
    yield app


def leads(html: str) -> set[str]:
    return set(re.findall(r'(?:href|src|action|hx-get)="(/[^"]*)"', html))


def test_it_works_below_another_application(dashboard: Dashboard, locks: locknut.Locks) -> None:
    lease = held(locks, "x")
    dashboard.places.all["memory"].look()
    for application in applications(dashboard):
        client = Visitor(application, headers={"x-session": "secret-of-ann"})
        page = client.get("/ops/locks/locks")
        assert page.status_code == 200
        assert all(each.startswith("/ops/locks/") for each in leads(page.text))
        for each in leads(page.text):
            assert client.get(each.replace("&amp;", "&")).status_code == 200, each
    assert lease.held


def test_the_hosts_own_login_decides(dashboard: Dashboard) -> None:
    for application in applications(dashboard):
        assert Visitor(application).get("/ops/locks/").status_code == 403


def test_a_login_may_be_awaited(locks: locknut.Locks) -> None:
    dashboard = Dashboard(locks, authorize=authorize_later, refresh=0.05)
    client = Visitor(dashboard)
    assert client.get("/").status_code == 403
    assert client.get("/", headers={"x-session": "secret-of-ann"}).status_code == 200
    dashboard.close()


def test_the_user_who_breaks_a_lock_is_named(dashboard: Dashboard, locks: locknut.Locks) -> None:
    lease = held(locks, "x")
    dashboard.places.all["memory"].look()
    client = Visitor(dashboard, headers={"x-session": "secret-of-ann"})
    page = client.get(f"/break?at=memory&name=x&fence={lease.fence}").text
    form = {"at": "memory", "name": "x", "fence": str(lease.fence), "stamp": stamp_in(page)}
    assert client.post("/break", data=form | {"typed": "x", "reason": "hangs"}).status_code == 200
    assert "hangs (ann, in the dashboard)" in client.get("/events").text


@pytest.mark.parametrize("decides", [authorize, None])
def test_what_the_host_knows_of_a_user_stays_its_own(locks: locknut.Locks, decides: Any) -> None:
    """Many hosts keep an object with more than a name in `request.state.user`."""
    lease, whole = held(locks, "x"), "ann <ann@example.com>, 4 Elm Street"
    dashboard = Dashboard(locks, authorize=decides, allow_break=True)
    dashboard.places.all["memory"].look()
    known: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {"user": whole}
        await dashboard(scope, receive, send)
        known.append(scope["state"]["user"])

    client = Visitor(application, headers={"x-session": "secret-of-ann"})
    page = client.get(f"/break?at=memory&name=x&fence={lease.fence}").text
    form = {"at": "memory", "name": "x", "fence": str(lease.fence), "stamp": stamp_in(page)}
    assert client.post("/break", data=form | {"typed": "x", "reason": "hangs"}).status_code == 200
    events = client.get("/events").text
    assert ("hangs (ann, in the dashboard)" if decides else "hangs (in the dashboard)") in events
    assert set(known) == {whole}
    dashboard.close()


@pytest.mark.parametrize(("secret", "status"), [("of all workers", 200), (None, 403)])
def test_a_form_may_come_back_to_another_worker(
    locks: locknut.Locks, secret: str | None, status: int
) -> None:
    lease = held(locks, "x")
    workers = [Dashboard(locks, allow_break=True, secret=secret) for _ in range(2)]
    for each in workers:
        each.places.all["memory"].look()
    client, other = map(Visitor, workers)
    page = client.get(f"/break?at=memory&name=x&fence={lease.fence}").text
    other.cookies.update(client.cookies)
    form = {"at": "memory", "name": "x", "fence": str(lease.fence), "stamp": stamp_in(page)}
    answer = other.post("/break", data=form | {"typed": "x", "reason": "hangs"})
    assert answer.status_code == status
    assert bool(locks.info("x").holders) == (status == 403)
    for each in workers:
        each.close()


@pytest.mark.slow
def test_a_django_site_has_it_behind_its_own_login() -> None:
    pytest.importorskip("django")
    program = Path(__file__).with_name("django_program.py")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr
