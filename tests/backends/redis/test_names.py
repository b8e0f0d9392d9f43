"""Every name has keys of its own, all in one hash slot, and can be read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends.redis import naming

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.text(
    "{}%:7BD25", min_size=1, max_size=12
)


@given(NAMES, st.booleans())
def test_a_name_is_read_back(name: str, permits: bool) -> None:
    key = naming.hold_key(f"ns:{name}", permits=permits)
    assert naming.key_of(key) == (f"ns:{name}", permits)
    assert naming.key_of(key + b":line") == (f"ns:{name}", permits)
    assert naming.key_of(key + b":fence") is None


@given(NAMES, st.booleans())
def test_all_keys_of_a_name_share_the_hash_tag(name: str, permits: bool) -> None:
    key = naming.hold_key(f"ns:{name}", permits=permits)
    start, end = key.index(b"{"), key.index(b"}")
    assert (key.count(b"{"), key.count(b"}")) == (1, 1)
    assert end > start + 1
