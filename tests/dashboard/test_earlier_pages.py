"""The pages show what the engine remembers of the time before the dashboard was started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import locknut
from tests.dashboard.conftest import Visit
from tests.dashboard.test_pages import text_of
from tests.observer.people import held

pytestmark = pytest.mark.usefixtures("patient_closing")


@pytest.fixture(
    params=["memory", "file", pytest.param("sqlite", marks=pytest.mark.sqlite)],
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    places = {
        "memory": f"memory:{abs(hash(request.node.nodeid))}",
        "file": f"file://{tmp_path}/locks",
        "sqlite": f"sqlite://{tmp_path}/locks.db",
    }
    return places[request.param]


def a_bad_night(url: str) -> int | None:
    """A lock that was taken, released, taken and broken; nobody looked."""
    with locknut.connect(url, history=100, label="nightly") as locks:
        with locks.lock("report"):
            pass
        lease = held(locks, "report")
        locks.force_release("report", lease.fence, reason="stuck since four")
        return lease.fence


def test_events_and_losses_of_before_are_shown(visit: Visit, url: str) -> None:
    fence = a_bad_night(url)
    client = visit(url)
    (at,) = client.dashboard.places.all
    events = text_of(client.get("/events").text)
    assert events.count("granted report nightly@") == 2
    assert "released report nightly@" in events
    assert "stuck since four" in events
    assert "granted" not in text_of(client.get("/events?kind=broken").text).partition("When")[2]
    first = text_of(client.get("/").text)
    assert "report was broken by force" in first
    assert f"fence {fence}" in first
    assert "Ended badly, 24 h 1" in first
    lock = client.get(f"/lock?at={at}&name=report").text
    # A first command that takes long, as it makes the table, counts as a wait.
    assert re.search(r"holds 2, waits \d+, owners 1, holds that ended badly 1", lock)
    assert "stuck since four" in lock


def test_what_it_sees_itself_is_told_once(visit: Visit, url: str) -> None:
    with locknut.connect(url, history=100, label="worker") as locks:
        client = visit(url)
        (observer,) = client.dashboard.places.all.values()
        lease = held(locks, "x")
        observer.look()
        lease.release()
        locks.close()  # its history is written now
        for _ in range(3):
            observer.look()
    kinds = [each.kind for each in observer.events("x")]
    assert kinds == ["granted", "released"]


def test_an_engine_without_history_shows_what_it_sees(visit: Visit, locks: locknut.Locks) -> None:
    with locks.lock("before"):
        pass
    assert "before" not in visit().get("/events").text
