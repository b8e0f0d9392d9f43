"""What others wrote never writes to a terminal, wherever it is shown."""

from __future__ import annotations

import pytest

from locknut import Holder
from locknut.core.plain_text import plain
from locknut.waits import Party

NASTY = "deploy\x1b]0;title\x07\n\x9b2J\u202eerror"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("caf\u00e9 \U0001f512 C:\\new", "caf\u00e9 \U0001f512 C:\\new"),
        ("caf\u00e9\x1b[31m\n", "caf\u00e9\\x1b[31m\\n"),
        ("\x9b\u202e\ud800\u2028", "\\x9b\\u202e\\ud800\\u2028"),
    ],
)
def test_only_what_cannot_be_printed_is_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(text).isprintable()


@pytest.mark.parametrize(
    "somebody",
    [
        Holder(NASTY, 1, NASTY, NASTY),
        Holder(owner=NASTY),
        Party(NASTY, NASTY, 1, NASTY, NASTY),
        Party("", who=NASTY),
    ],
    ids=repr,
)
def test_who_holds_a_lock_is_named_in_errors(somebody: Holder | Party) -> None:
    assert str(somebody).isprintable()
    assert "deploy" in str(somebody)


def test_nobody_is_still_somebody() -> None:
    assert str(Holder()) == str(Party("")) == "somebody"
