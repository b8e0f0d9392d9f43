"""How the command line writes things down."""

from __future__ import annotations

import pytest

from locknut.cli import messages
from locknut.cli.ls import card, table
from locknut.cli.run_lock import describe
from locknut.core.values import Holder, LockInfo, Mode


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.08, "80ms"),
        (1, "1s"),
        (1.54, "1.5s"),
        (59.94, "59.9s"),
        (60, "1m"),
        (372.9, "6m12s"),
        (3600, "1h"),
        (7265, "2h1m"),
        (90061, "1d1h"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert messages.span(seconds) == text


def test_control_characters_of_others_never_reach_the_terminal() -> None:
    nasty = "a\x1b[2Jb\nc"
    holder = Holder(host="h\x07", pid=1, label=nasty)
    info = LockInfo(nasty, (holder,), (holder,))
    for text in (messages.quoted(nasty), messages.who(holder), describe(info, nasty)):
        assert text.isprintable()
    for text in (table([info]), card(info, nasty)):
        assert all(line.isprintable() for line in text.split("\n"))


def test_nor_do_those_of_an_error_that_quotes_them(capfd: pytest.CaptureFixture[str]) -> None:
    messages.Messenger().error("not_broken", "held by caf\u00e9\x1b]0;title\x07\nlocknut: broke it")
    said = capfd.readouterr().err
    assert said == "locknut: held by caf\u00e9\\x1b]0;title\\x07\\nlocknut: broke it\n"


def test_the_busy_line_names_holder_age_fence_ttl_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0 + 372)
    holder = Holder(host="web-3", pid=4121, label="deploy", raw=276, since=1000.0, ttl_left=24.0)
    text = describe(LockInfo("nightly", (holder,), (Holder(), Holder())), "file:/d")
    assert text.startswith('"nightly" is held by deploy@web-3:4121 since ')
    assert text.endswith(" (6m12s), fence 8832, ttl 24s, 2 waiting, in file:/d")


def test_a_table_has_a_row_per_holder_and_aligned_columns() -> None:
    two = tuple(Holder(host="h", pid=pid, mode=Mode.PERMIT, raw=pid) for pid in (1, 22))
    lines = table([LockInfo("api", two, permits=5), LockInfo("b", (), (Holder(),))]).split("\n")
    assert lines[0].split() == [
        "NAME",
        "MODE",
        "HOLDER",
        "HELD",
        "TTL",
        "FENCE",
        "WAITING",
        "COMMAND",
    ]
    assert lines[1].split() == ["api", "slots", "2/5", "h:1", "-", "-", "32", "0", "-"]
    assert lines[2].split() == ["slots", "2/5", "h:22", "-", "-", "704", "-"]
    assert lines[3].split() == ["b", "-", "-", "-", "-", "-", "1", "-"]
    assert lines[1].index("32") + 2 == lines[2].index("704") + 3


def test_a_duration_is_called_one_and_a_moment_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0 + 372)
    info = LockInfo("x", (Holder(host="c", pid=3, since=1000.0),), (Holder(pid=1, since=1360.0),))
    head, row = table([info]).split("\n")
    assert row.split()[head.split().index("HELD")] == "6m12s"
    text = card(info, "file:/d")
    assert f"held for 6m12s (since {messages.moment(1000.0)})" in text
    assert "waiting for 12s" in text


def test_a_card_shows_the_line_in_order() -> None:
    waiters = (Holder(host="a", pid=1), Holder(host="b", pid=2))
    text = card(LockInfo("x", (Holder(host="c", pid=3, raw=2),), waiters), "file:/d")
    assert text.startswith('"x" in file:/d:')
    assert text.index("c:3") < text.index("1. a:1") < text.index("2. b:2")
    assert card(LockInfo("x"), "file:/d") == '"x" is free in file:/d'
