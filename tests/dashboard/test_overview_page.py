"""The figures of the first page, on the page and as JSON, and where there are none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from starlette.datastructures import QueryParams

import locknut
from locknut.core import recording
from locknut.dashboard import Dashboard, overview_page
from locknut.dashboard.access import Access
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.sightings import Ending, Span
from tests.contracts.sources import ROOT
from tests.dashboard.conftest import Visit
from tests.dashboard.test_pages import text_of
from tests.observer.people import deadlock_through, held
from tests.servers.processes import until


def only(client: Any) -> PlaceObserver:
    (observer,) = client.dashboard.places.all.values()
    found: PlaceObserver = observer
    return found


def waited(observer: PlaceObserver, seconds: float) -> None:
    """A wait that a listing showed, and that is over now."""
    with observer.guard:  # it looks by itself from the first request on
        now = observer.now()
        over = Span("report", locknut.Holder(), now - seconds, now, Ending.GRANTED)
        observer.history.add_wait(over)


def test_of_a_hundred_waits_the_longest_is_beyond_both_percentiles(visit: Visit) -> None:
    client = visit()
    assert "p95 wait, 5 min - p99 wait, 5 min -" in text_of(client.get("/").text)
    for number in range(1, 101):
        waited(only(client), number + 0.5)
    said = text_of(client.get("/").text)
    assert "p95 wait, 5 min 1m35s p99 wait, 5 min 1m39s" in said
    only(client).look()
    series = json.loads(client.get("/series").text)
    assert (series["p50"][-1], series["p95"][-1], series["p99"][-1]) == (50.5, 95.5, 99.5)


def test_figures_are_read_while_nobody_changes_them(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that ends just then would change what is counted."""
    client = visit()
    observer = only(client)
    real = observer.history.waited

    def guarded(then: float) -> list[float]:
        assert observer.guard._is_owned()  # type: ignore[attr-defined]
        return real(then)

    monkeypatch.setattr(observer.history, "waited", guarded)
    assert client.get("/").status_code == 200


def test_a_hot_lock_has_a_curve_of_its_line(
    visit: Visit, locks: locknut.Locks, queue_up: Callable[[str], None]
) -> None:
    client = visit()
    with locks.lock("report"):
        queue_up("report")
        only(client).look()
        only(client).look()
        page = client.get("/").text
    assert re.search(r'aria-label="a line of 1 at most, at the last \d+ listings"', page)
    (points,) = re.findall(r'<polyline points="([^"]*)"', page)
    first, *_, last = points.split()
    assert (first, last) == ("0.0,23.0", "100.0,1.0")
    assert "Acquired/s" in page


@pytest.mark.usefixtures("patient_closing")
def test_acquisitions_are_counted_where_they_are_written_down(
    visit: Visit, locks: locknut.Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "PAUSE", 0.05)
    client = visit()
    only(client).look()
    held(locks, "report").release()
    only(client).look()
    assert "Acquired/s -" in text_of(client.get("/").text), "nobody keeps a history"
    with locknut.connect(locks.place, history=100) as other:
        held(other, "report").release()
        until(locks.history, "it is written down")
    only(client).look()
    assert re.search(r"Acquired/s \d", text_of(client.get("/").text))
    figures = client.get("/overview.json").json()
    assert figures["acquired_per_second"] > 0
    assert figures["acquired_at_least"] is False


@pytest.mark.usefixtures("patient_closing")
def test_the_first_page_says_where_a_break_would_not_be_seen(
    visit: Visit, locks: locknut.Locks
) -> None:
    told = "Nobody keeps history here, so a lock that is broken looks as if it was released."
    lease = held(locks, "report")
    client = visit()
    with locknut.connect(locks.place) as other:  # neither of them writes it down
        assert other.force_release("report", lease.fence)
    only(client).look()
    said = text_of(client.get("/").text)
    assert told in said
    with locknut.connect(locks.place, history=100) as other:
        held(other, "report").release()
    assert told not in text_of(visit().get("/").text)


def test_an_engine_that_was_never_heard_of_is_not_called_well(locks: locknut.Locks) -> None:
    with closing(Dashboard(locks)) as dashboard:  # which nothing has asked yet
        figures = overview_page.shown(dashboard.places, QueryParams())
        assert figures["figures"].answering == 0
        assert figures["unasked"] == [locks.place]
        page = dashboard._renderer._environment.get_template("overview.html")
        said = text_of(page.render(figures | {"several": False, "base": "", "at": ""}))
        assert "Nothing needs attention" not in said
        assert f"{locks.place} was asked for the first time and has not answered yet" in said


def test_more_bad_endings_than_are_remembered_are_the_least_that_it_can_be(visit: Visit) -> None:
    client = visit()
    observer = only(client)
    assert "Ended badly, 24 h 0" in text_of(client.get("/").text)
    now = observer.now()
    most = observer.bad_endings.maxlen
    assert most is not None
    for number in range(most):
        observer.bad_endings.append(
            Span("report", locknut.Holder(raw=number), now - 9, now, Ending.EXPIRED)
        )
    assert f"Ended badly, 24 h ≥ {most}" in text_of(client.get("/").text)
    assert client.get("/overview.json").json()["ended_badly_at_least"] is True
    old = now - 25 * 3600
    observer.bad_endings[0] = Span("report", locknut.Holder(), old, old, Ending.EXPIRED)
    assert f"Ended badly, 24 h {most - 1}" in text_of(client.get("/").text)


def test_the_first_page_as_json(
    visit: Visit, locks: locknut.Locks, queue_up: Callable[[str], None]
) -> None:
    client = visit()
    page = client.get("/").text
    assert 'href="/overview.json"' in page
    lease = held(locks, "report")
    queue_up("report")
    only(client).look()
    only(client).look()  # this engine does not say since when: it counts from the first listing
    found = client.get("/overview.json").json()
    assert (found["held"], found["waiting"], found["answering"], found["places"]) == (1, 1, 1, 1)
    assert found["longest_wait"] > 0
    assert found["wait_p99"] is None
    assert found["acquired_per_second"] is None
    (hot,) = found["hottest"]
    assert (hot["lock"], hot["waiting"]) == ("report", 1)
    assert (hot["line"][0], set(hot["line"][1:])) == (0, {1})
    (engine,) = found["engines"]
    assert (engine["at"], engine["backend"], engine["problem"]) == ("memory", "memory", None)
    locks.force_release("report", lease.fence, reason="stuck")
    only(client).look()
    (concern,) = client.get("/overview.json").json()["attention"]
    assert (concern["level"], concern["kind"], concern["lock"]) == ("warning", "broken", "report")
    assert "stuck" in concern["detail"]
    assert concern["since"] is not None


def test_every_lock_that_matches_as_json(visit: Visit, locks: locknut.Locks) -> None:
    leases = [held(locks, f"order:{number:03}") for number in range(60)]
    leases.append(held(locks, "invoice"))
    client = visit()
    page = client.get("/locks?filter=order:*&order=name").text
    (link,) = re.findall(r'id="export" href="([^"]*)"', page)
    found = client.get(link.replace("&amp;", "&")).json()
    assert [each["lock"] for each in found["locks"]] == [each.name for each in leases[:60]]
    first = found["locks"][0]
    assert first["holders"][0]["fence"] == leases[0].fence
    assert first["place"] == locks.place
    assert first["wait_p95"] is None
    assert len(client.get("/locks.json").json()["locks"]) == 61
    assert client.get("/locks.json?at=elsewhere").json() == {"engines": [], "locks": []}


def test_names_of_any_letters_can_be_exported(visit: Visit, locks: locknut.Locks) -> None:
    with locks.lock("\u00e9 \U0001f512 \x1b[31m <script>"):
        answer = visit().get("/locks.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["locks"][0]["lock"] == "\u00e9 \U0001f512 \x1b[31m <script>"


def test_whoever_has_not_logged_in_is_refused_and_not_led_to_a_page(visit: Visit) -> None:
    client = visit(access=Access(passphrase="correct horse battery"))
    for name in ("overview.json", "locks.json"):
        assert client.get(f"/{name}").status_code == 401
        known = {"authorization": "Bearer correct horse battery"}
        assert client.get(f"/{name}", headers=known).status_code == 200


def test_no_export_has_a_password_of_a_url(visit: Visit) -> None:
    with locknut.connect("redis://user:hunter2@localhost:1/0") as locks:
        client = visit(locks)
        for name in ("overview.json", "locks.json"):
            assert "hunter2" not in client.get(f"/{name}").text


def test_every_field_is_in_the_documentation(
    visit: Visit, locks: locknut.Locks, queue_up: Callable[[str], None]
) -> None:
    page = (ROOT / "docs" / "operations" / "dashboard.md").read_text(encoding="utf-8")
    client = visit()
    locks.force_release("broken", held(locks, "broken").fence)
    with locks.lock("report"):
        queue_up("report")
        only(client).look()
        found = client.get("/overview.json").json()
    rows = [found, *found["engines"], *found["hottest"], *found["attention"]]
    assert all(found[name] for name in ("engines", "hottest", "attention"))
    for field in {name for row in rows for name in row}:
        assert f"`{field}`" in page, field


def test_a_deadlock_through_two_places_is_named(visit: Visit, locks: locknut.Locks) -> None:
    with locknut.connect("memory:elsewhere-too") as other:
        client = visit(locks, other)
        places = client.dashboard.places
        with deadlock_through(locks, other):
            assert "deadlock" not in text_of(client.get("/").text)
            places.start()  # from now on it looks by itself
            until(lambda: places.across.cycles, "two listings of each place")
            for at in ("", *places.all):
                said = text_of(client.get(f"/?at={at}").text)
                assert "x is in a deadlock of 2 through 2 places" in said
                graph = client.get(f"/graph?at={at}").text
                assert "Deadlock of 2" in graph
                assert f"{locks.place} and {other.place}" in text_of(graph) or (
                    f"{other.place} and {locks.place}" in text_of(graph)
                )
            assert client.get("/graph").text.count("tree cycle") == 2
            both = client.get("/overview.json").json()["attention"]
            assert "deadlock" in {each["kind"] for each in both}
