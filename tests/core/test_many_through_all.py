"""A caller that holds many locks through `all` pays once for each further one, not many times."""

from __future__ import annotations

import pytest

import locknut
from locknut.core import acquiring_all
from locknut.core.acquiring_all import Part

HELD, MORE = 300, 100


def test_asking_for_more_looks_at_what_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = 0
    plain = acquiring_all.order

    def order(part: Part) -> tuple[str, str]:
        nonlocal ordered
        ordered += 1
        return plain(part)

    with locknut.connect("memory:") as locks:
        first = locks.all(*(f"a{each:04}" for each in range(HELD))).acquire()
        monkeypatch.setattr(acquiring_all, "order", order)
        more = locks.all(*(f"b{each:04}" for each in range(MORE))).acquire()
        assert first is not None
        assert more is not None
        assert ordered < 10 * MORE


def test_one_that_sorts_before_any_that_is_held_is_still_refused() -> None:
    with locknut.connect("memory:") as locks:
        assert locks.all("b", "d", "f").acquire() is not None
        with pytest.raises(locknut.DeadlockDetected, match="sorts before"):
            locks.all("e", "g").acquire(timeout=0)
        assert locks.all("g", "h").acquire(timeout=0) is not None
