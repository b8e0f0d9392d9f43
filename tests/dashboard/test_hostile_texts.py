"""Texts that nobody of ours would write: half characters, and what a terminal would obey."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import locknut
from locknut.core import recording
from locknut.core.values import Claim, Granted
from locknut.observer.circles_across import AcrossMember
from locknut.observer.seams import Member, concern_of
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.dashboard.conftest import Visit
from tests.dashboard.test_pages import PAGES, text_of

HALF = "half \ud800\x1b[2J"
SHOWN = "half \\ud800\\x1b[2J"


@pytest.fixture
def place(locks: locknut.Locks) -> Iterator[None]:
    """A lock and an event whose texts went past the library, as another client may write them."""
    port = open_engine(locks.place)[0].blocking(ThreadRuntime())
    claims = [Claim(f"locknut:{HALF}", f"{at:032x}", who=HALF, label=HALF) for at in (1, 2)]
    assert isinstance(run(port.attempt(claims[0], 0.0)), Granted)
    run(port.attempt(claims[1], 60.0))
    said = {"id": "abc-1", "age": 0, "kind": HALF, "name": HALF, "who": HALF, "reason": HALF}
    written = [json.dumps(said), json.dumps(said | {"id": "abc-2", "kind": "lost", "fence": 64})]
    run(port.write_history(recording.stream_key("locknut:", recording.TROUBLES), written, 100))
    yield
    run(port.release(claims[0]))
    run(port.close())


@pytest.mark.usefixtures("place")
def test_no_page_fails_and_none_shows_them_as_they_are(visit: Visit) -> None:
    client = visit()
    for page in (*PAGES, "locks.json", "overview.json", "locks?filter=half"):
        answer = client.get(f"/{page}")
        assert answer.status_code == 200, page
        assert "\x1b" not in answer.text
    for page in ("locks", "graph", "owners", "events", ""):
        assert SHOWN in text_of(client.get(f"/{page}").text), page


def test_a_deadlock_is_named_by_what_can_be_shown() -> None:
    concern = concern_of((Member("web-1", HALF, 1), Member("web-2", HALF, 2)))
    assert (concern.title + concern.detail).isprintable()
    assert SHOWN in concern.title


def test_so_is_one_through_two_places(visit: Visit, locks: locknut.Locks) -> None:
    with locknut.connect("memory:hostile") as other:
        across = visit(locks, other).dashboard.places.across
        across.cycles = [
            tuple(AcrossMember("somebody", HALF, at, 1, at) for at in ("memory", "memory-2"))
        ]
        ((_, concern),) = across.concerns()
    assert (concern.title + concern.detail).isprintable()
