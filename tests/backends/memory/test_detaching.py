"""A hold that was detached lives for as long as it was detached, whatever comes late."""

from __future__ import annotations

import pytest

from locknut.backends.memory.store import Store
from locknut.core.values import Claim, Granted, Renewal

pytestmark = pytest.mark.memory


def nobody(*_: object) -> None:
    """Nobody is told."""


def test_what_comes_late_does_not_shorten_what_was_detached() -> None:
    """The keeper has its renewal in hand when the hold is detached; or an attempt is repeated, or
    an attach.
    """
    store = Store(lambda: 0.0, nobody, nobody)
    mine, heir = Claim("x", "mine", 5.0), Claim("x", "heir", 5.0)
    assert isinstance(store.attempt(mine, 0.0), Granted)
    assert store.detach(mine, 60.0, 1.0)
    assert store.renew(mine, 2.0) is Renewal.HELD
    assert isinstance(store.attempt(mine, 3.0), Granted)
    assert store.attach(mine, heir, 59.0)
    assert store.detach(heir, 60.0, 60.0)
    assert store.attach(mine, heir, 61.0), "asked again"
    assert store.renew(heir, 119.0) is Renewal.HELD


def test_whoever_attaches_has_the_ttl_of_its_lock() -> None:
    store = Store(lambda: 0.0, nobody, nobody)
    mine, heir = Claim("x", "mine", 5.0), Claim("x", "heir", 5.0)
    assert isinstance(store.attempt(mine, 0.0), Granted)
    assert store.detach(mine, 60.0, 1.0)
    assert store.attach(mine, heir, 59.0)
    assert store.renew(heir, 63.9) is Renewal.HELD
    assert store.renew(heir, 69.0) is Renewal.LOST


def test_a_hold_may_be_detached_for_less_than_its_ttl() -> None:
    store = Store(lambda: 0.0, nobody, nobody)
    mine = Claim("x", "mine", 60.0)
    assert isinstance(store.attempt(mine, 0.0), Granted)
    assert store.detach(mine, 5.0, 1.0)
    assert store.renew(mine, 7.0) is Renewal.LOST
