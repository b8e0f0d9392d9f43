"""Who come first at the same moment find one memory engine, not one each."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

import locknut
from locknut.backends.memory import backend
from tests.api.crowd import Started


def test_two_threads_that_connect_first_share_their_locks(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_make_one = threading.Barrier(2, timeout=0.5)

    class SlowlyMade(backend.MemoryEngine):
        def __init__(self, *facts: Any) -> None:
            with suppress(threading.BrokenBarrierError):  # where it is made once, nobody else comes
                both_make_one.wait()
            super().__init__(*facts)

    monkeypatch.setattr(backend, "MemoryEngine", SlowlyMade)
    first_comers = [Started(locknut.connect, url) for _ in range(2)]
    one, other = [each.result() for each in first_comers]
    with one, other, one.lock("x"):
        assert other.lock("x").acquire(blocking=False) is None
