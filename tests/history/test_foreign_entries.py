"""Anybody who reaches an engine may write into its history: what nobody can show is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import locknut
from locknut.cli import events_
from locknut.core import recording
from locknut.core.history_entries import entries
from locknut.observer.earlier_events import earlier
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine

pytestmark = pytest.mark.memory
AT = 1_800_000_000.0


def text(**changed: object) -> str:
    facts = {"id": "abc-1", "age": 0.0, "kind": "granted", "name": "x", "fence": 32, "held": 1.0}
    return json.dumps(facts | changed)


def test_an_entry_as_we_write_it_is_taken() -> None:
    (found,) = entries([(AT, text())])
    assert (found.time, found.kind, found.name, found.fence) == (AT, "granted", "x", 32)


@pytest.mark.parametrize(
    "changed",
    [
        {"age": float("inf")}, {"age": float("-inf")}, {"age": float("nan")}, {"age": 1e300},
        {"age": 10**400}, {"waited": float("nan")}, {"held": float("inf")}, {"held": 10**400},
        {"fence": 10**400}, {"fence": float("nan")}, {"pid": float("inf")}, {"id": "../1"},
    ],
    ids=str,
)  # fmt: skip
def test_numbers_that_nobody_can_show_or_add(changed: dict[str, object]) -> None:
    found = entries([(AT, text(**changed)), (AT, text(id="abc-2"))])
    assert [each.id for each in found] == ["abc-2"]
    assert all(events_.line(each) for each in found)
    assert earlier(found, AT + 1.0).happenings


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """With an entry in its history that nothing of ours wrote."""
    url = f"memory:{request.node.name}"
    with locknut.connect(url) as locks:
        port = open_engine(url)[0].blocking(ThreadRuntime())
        key = recording.stream_key("locknut:", recording.TROUBLES)
        hostile = {"kind": "lost\x1b[2J", "name": "a\x1b]0;\ud800", "reason": "\x07", "who": "\x9b"}
        run(port.write_history(key, [text(**hostile, host="h\n", age=10**400)], 100))
        run(port.write_history(key, [text(**hostile, host="h\n")], 100))
        yield locks.place
        run(port.close())


def test_what_it_says_is_shown_on_one_line(place: str) -> None:
    with locknut.connect(place) as locks:
        (found,) = locks.history()
        assert events_.line(found).isprintable()
