"""Every name has a key of its own that memcached takes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from locknut.backends.memcached.item_keys import key_of, may_begin
from locknut.backends.memcached.recipe import note_key

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


@settings(deadline=None)
@given(NAMES)
def test_a_key_is_short_and_has_no_blanks(name: str) -> None:
    key = key_of(name)
    assert len(key) <= 250
    assert all(33 <= byte < 127 for byte in key)


@settings(deadline=None)
@given(NAMES, NAMES)
def test_two_names_have_two_keys(one: str, other: str) -> None:
    assert (key_of(one) == key_of(other)) == (one == other)


def test_a_name_that_looks_like_a_hashed_one() -> None:
    hashed = key_of("a b").decode()
    assert key_of(hashed) != key_of("a b")


def test_plain_names_stay_readable() -> None:
    assert key_of("locknut:invoice:42") == b"locknut:invoice:42"


@settings(deadline=None)
@given(NAMES, NAMES)
def test_a_key_may_begin_as_every_beginning_of_its_name(prefix: str, rest: str) -> None:
    """Or a lock would be missing from a list."""
    assert may_begin(key_of(prefix + rest), prefix)
    assert may_begin(key_of(f"shop:{rest}"), "shop:")
    assert not may_begin(key_of(f"shop:{rest}"), "other:")
    assert not may_begin(note_key(rest), "shop:")
