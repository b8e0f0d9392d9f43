"""LOCKNUT_HELD: what the ancestors hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

import locknut
from locknut.cli import ancestors


@given(some.lists(some.tuples(some.text(min_size=1), some.integers(0, 2**53))))
def test_any_names_survive_the_list(held: list[tuple[str, int]]) -> None:
    text = ""
    for name, fence in held:
        text = ancestors.with_entry(text, name, fence)
    assert list(ancestors._entries(text)) == held


def test_only_the_very_hold_of_an_ancestor_is_refused() -> None:
    with locknut.connect("memory:") as locks, locks.lock("x") as lease:
        entry = ancestors.with_entry("", "x", lease.fence)
        with pytest.raises(locknut.DeadlockDetected, match="outer"):
            ancestors.refuse_reentry(locks, "x", "other#1:" + entry)
        ancestors.refuse_reentry(locks, "y", entry)
        ancestors.refuse_reentry(locks, "x", ancestors.with_entry("", "x", lease.fence - 32))
        ancestors.refuse_reentry(locks, "x", "garbage:x:x#:#4:x#y")
