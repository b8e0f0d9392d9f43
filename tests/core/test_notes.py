"""What the holder of a broken lock is told: short, on one line, and harmless to show."""

from __future__ import annotations

import pytest

from locknut.core import notes


@pytest.mark.parametrize(
    ("reason", "label", "note"),
    [
        ("stuck", "ann", "stuck (by ann)"),
        ("stuck", "", "stuck"),
        ("", "ann", "by ann"),
        (" \n", " ", ""),
        ("", "", ""),
        ("two\nlines\t and more", "a  b", "two lines and more (by a b)"),
        ("lone \udcff", "", "lone ?"),
    ],
)
def test_what_is_written(reason: str, label: str, note: str) -> None:
    assert notes.written(reason, label) == note


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u20ac", "\U0001f512"])
def test_a_long_reason_is_cut_and_still_says_by_whom(letter: str) -> None:
    note = notes.written(500 * letter, "ann")
    assert notes.MOST - 4 <= len(note.encode()) <= notes.MOST
    assert note.endswith("... (by ann)")
    assert notes.read(note) == note


def test_a_long_label_leaves_room_for_the_reason() -> None:
    note = notes.written("stuck since noon", 500 * "x")
    assert note.startswith("stuck since noon (by xxx")
    assert len(note) <= notes.MOST


def test_whatever_stands_there_can_be_shown() -> None:
    """Anybody who may write to the engine may have written it."""
    shown = notes.read("\x1b[2Jred\nand more" + 1000 * "x")
    assert shown.startswith("\\x1b[2Jred and more")
    assert shown.isprintable()
    assert len(shown) <= notes.MOST + 3
