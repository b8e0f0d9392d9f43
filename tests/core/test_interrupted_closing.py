"""An interrupt (Ctrl-C) that comes while a Locks is closed: it is closed all the same, whole."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import locknut
from tests.core import test_interrupted_callers
from tests.core.test_interrupted_callers import PATIENCE, held, interrupted, until

KEEPER = "locknut-keeper"

pytestmark = test_interrupted_callers.pytestmark


@pytest.fixture(autouse=True)
def dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # Python drops them in finalizers


def keepers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == KEEPER and each.ident]


def test_what_was_held_is_given_back_and_the_keeper_ends() -> None:
    until(lambda: not keepers(), "of an earlier test")
    leases: list[locknut.Lease] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        leases[:] = [held(locks, name) for name in "abc"]
        return locks.close

    for locks, _, where in interrupted(locknut.Locks.close, act):
        client: Any = locks._client
        with locknut.Locks(client.backend._engine) as others:
            for name in "abc":
                assert others.lock(name).acquire(timeout=PATIENCE), f"{name}: {where}"
        assert not any(lease.held for lease in leases), where
        with pytest.raises(locknut.ConfigurationError, match="closed"):
            locks.lock("d").acquire()
        until(lambda: not keepers(), f"the keeper goes on after {where}")


def test_each_release_is_told_once_at_the_most() -> None:
    told: list[tuple[str, str]] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        told.clear()
        for name in "abc":
            held(locks, name)
        locks.on_event(lambda event: told.append((event.kind, event.name)))
        return locks.close

    for _, _, where in interrupted(locknut.Locks.close, act):
        assert len(told) == len(set(told)), where
        assert len(told) >= 2, where  # the one whose telling was interrupted is missing
