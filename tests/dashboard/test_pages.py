"""What each page shows, asked for as a browser without scripts asks."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable

import pytest

import locknut
from locknut.observer.seams import Member
from locknut.observer.sightings import Concern, Weight
from tests.dashboard.conftest import Visit
from tests.observer.people import Waiters, held
from tests.servers.processes import until
from tests.servers.redis import RedisServer

PAGES = ["", "locks", "graph", "owners", "events", "backends"]
HOSTILE = "<script>alert(1)</script>\x1b[31m&?#%/é"


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_there_and_quiet_when_nothing_happens(visit: Visit, page: str) -> None:
    answer = visit().get(f"/{page}")
    assert answer.status_code == 200
    assert 'aria-current="page"' in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_a_tick_fetches_only_what_changes(visit: Visit, page: str) -> None:
    answer = visit().get(f"/{page}", headers={"hx-request": "true"})
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert answer.headers["vary"] == "hx-request"


def test_the_overview_counts_and_names_trouble(
    visit: Visit, locks: locknut.Locks, queue_up: Callable[[str], None]
) -> None:
    client = visit()
    (observer,) = client.dashboard.places.all.values()
    assert "Nothing needs attention" in client.get("/").text
    lease = held(locks, "report")
    queue_up("report")
    observer.look()
    locks.force_release("report", lease.fence, reason="stuck")
    observer.look()
    said = text_of(client.get("/").text)
    assert "Ended badly, 24 h 1" in said
    assert "broken report was broken by force" in said
    assert "report" in text_of(client.get("/events").text)
    assert "stuck" in client.get("/events?kind=broken").text


def test_a_lock_shows_holder_line_and_fence(
    visit: Visit, locks: locknut.Locks, queue_up: Callable[[str], None]
) -> None:
    with locks.lock("report") as lease:
        queue_up("report")
        said = text_of(visit().get("/lock?at=memory&name=report").text)
    assert str(lease.fence) in said
    assert "Line 1" in said
    assert "waiter" in said


def test_a_lock_that_is_free_has_a_page_too(visit: Visit) -> None:
    assert "It is free." in visit().get("/lock?at=memory&name=never").text


@pytest.mark.parametrize("query", ["", "?at=nowhere&name=x", "?at=memory"])
def test_a_lock_of_nowhere_has_none(visit: Visit, query: str) -> None:
    assert visit().get(f"/lock{query}").status_code == 404


def test_names_that_others_chose_are_shown_and_never_obeyed(
    visit: Visit, locks: locknut.Locks, queue_up: Callable[[str], None]
) -> None:
    with locks.lock(HOSTILE):
        queue_up(HOSTILE)
        client = visit(allow_break=True)
        for page in PAGES:
            assert "<script>alert" not in client.get(f"/{page}").text
        (link,) = re.findall(r'id="lock-1" href="([^"]*)"', client.get("/locks").text)
        detail = client.get(link.replace("&amp;", "&"))
    assert detail.status_code == 200
    assert "<script>alert" not in detail.text
    assert "&lt;script&gt;alert(1)" in detail.text
    assert "\x1b" not in detail.text
    assert "Line" in detail.text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("filter=order:*", 60),
        ("filter=order:1", 11),
        ("filter=invoice", 3),
        ("filter=nothing", 0),
        ("mode=shared", 1),
        ("", 64),
    ],
)
def test_locks_are_filtered(visit: Visit, locks: locknut.Locks, query: str, found: int) -> None:
    names = [*(f"order:{at}" for at in range(60)), *(f"invoice:{at}" for at in range(3))]
    leases = [locks.lock(name).acquire() for name in names]
    leases.append(locks.rwlock("catalog").read().acquire())
    said = text_of(visit().get(f"/locks?{query}", headers={"hx-request": "true"}).text)
    assert f" {found} lock" in said if found else "No lock matches" in said
    del leases


def test_locks_come_in_parts(visit: Visit, locks: locknut.Locks) -> None:
    leases = [locks.lock(f"n{at:03}").acquire() for at in range(120)]
    client = visit()
    shown = [
        re.findall(r'id="lock-\d+"[^>]*>([^<]*)<', client.get(f"/locks?page={page}").text)
        for page in (1, 2, 3, 99)
    ]
    assert [len(each) for each in shown] == [50, 50, 20, 20]
    assert sorted(shown[0] + shown[1] + shown[2]) == [f"n{at:03}" for at in range(120)]
    del leases


def test_several_places_are_one_dashboard(locks: locknut.Locks, visit: Visit) -> None:
    with locknut.connect("memory:elsewhere") as other, locks.lock("here"), other.lock("there"):
        client = visit(locks, other)
        both = client.get("/locks").text
        assert "here" in text_of(both)
        assert "there" in text_of(both)
        assert "memory:elsewhere" in both
        one = text_of(client.get("/locks?at=memory-2", headers={"hx-request": "true"}).text)
    assert "there" in one
    assert "1 lock" in one


def test_backends_say_what_they_can_promise_and_what_the_doctor_found(
    visit: Visit, locks: locknut.Locks
) -> None:
    client = visit()
    (observer,) = client.dashboard.places.all.values()
    observer.doctor.findings = [Concern(Weight.WARNING, "eviction", "keys may be evicted")]
    said = text_of(client.get("/backends").text)
    assert all(each.value in said for each in locks.capabilities)
    assert "keys may be evicted" in said


def test_a_deadlock_is_red_and_first(
    visit: Visit,
    locks: locknut.Locks,
    queue_up: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    circle = (Member("web-1", "b", 1), Member("web-2", "c", 2))
    with locks.lock("a"), locks.lock("b"), locks.lock("c"):
        for name in "abc":
            queue_up(name)
        client = visit()
        (observer,) = client.dashboard.places.all.values()
        monkeypatch.setattr(observer, "_deadlocks", lambda _: ([circle], []))
        for _ in range(2):  # it counts when it is seen twice
            observer.look()
        said = client.get("/graph").text
    assert "Deadlock of 2" in said
    assert said.index("tree cycle") < said.index('"card tree"')


def test_roots_come_before_those_that_wait_themselves(visit: Visit, locks: locknut.Locks) -> None:
    """Whoever holds two and waits for none is what an operator looks for."""
    holds = threading.Event()

    def middle() -> None:
        with locknut.connect(locks.place) as other, other.lock("middle"):
            holds.set()
            with other.lock("root"):
                pass

    with Waiters() as waiters, locks.lock("root"):
        thread = threading.Thread(target=middle)
        waiters.callback(thread.join)
        thread.start()
        assert holds.wait(60)
        waiters.queue_up(locks, "middle")
        waiters.queue_up(locks, "middle")
        until(lambda: len(locks.info("middle").waiters) == 2, "the longer line")
        until(lambda: locks.info("root").waiters, "the shorter one")
        said = text_of(visit().get("/graph", headers={"hx-request": "true"}).text)
    assert said.index("root") < said.index("middle")
    assert "and waits for root" in said


@pytest.mark.redis
def test_who_waits_is_not_reported_by_every_engine(visit: Visit) -> None:
    """A line that is empty would say that nobody waits."""
    with RedisServer() as server:
        url = f"{server.url}?layout=redisson"
        with locknut.connect(url) as locks, locks.lock("report"):
            client = visit(locks)
            (at,) = client.dashboard.places.all
            assert "not reported" in text_of(client.get("/locks").text)
            detail = text_of(client.get(f"/lock?at={at}&name=report").text)
            graph = text_of(client.get("/graph").text)
            client.dashboard.close()
    assert "Not reported by redis" in detail
    assert "Nobody waits." not in detail
    assert "Not reported: " in graph


@pytest.mark.parametrize("number", ["²", "x", "-1", "9" * 5000, ""])
def test_what_is_no_number_is_no_error(visit: Visit, locks: locknut.Locks, number: str) -> None:
    client = visit(allow_break=True)
    with locks.lock("report"):
        for page in ("locks", "graph", "owners", "events"):
            assert client.get(f"/{page}", params={"page": number}).status_code == 200
        asked = {"at": "memory", "name": "report", "fence": number}
        assert client.get("/break", params=asked).status_code == 404


def test_the_charts_have_a_point_for_each_listing(visit: Visit, locks: locknut.Locks) -> None:
    client = visit()
    (observer,) = client.dashboard.places.all.values()
    with locks.lock("x"):
        observer.look()
    series = json.loads(client.get("/series").text)
    assert series["held"] == [0, 1]
    assert all(len(each) == 2 for each in series.values())


def test_no_page_has_a_password_of_a_url(visit: Visit) -> None:
    with locknut.connect("redis://user:hunter2@localhost:1/0") as locks:
        client = visit(locks)
        for page in PAGES:
            answer = client.get(f"/{page}")
            assert "hunter2" not in answer.text + str(answer.headers)
        assert "does not answer" in client.get("/backends").text
