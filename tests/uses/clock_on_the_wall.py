"""The clock on the wall of each host, which a test sets: only slots are read from it."""

from __future__ import annotations

import pytest

from locknut.faces import slots

NOON = 1_800_000_000.0
"""A multiple of an hour, and of everything that the tests call a slot."""


class WallClock:
    """What the host that acts now reads from its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.shows = NOON
        self._then: list[float] = []
        monkeypatch.setattr(slots, "wall_clock", self.read)

    def read(self) -> float:
        if self._then:
            self.shows = self._then.pop(0)
        return self.shows

    def will_show(self, *moments: float) -> None:
        """The next looks at it, one after the other: a host may be suspended between two."""
        self._then = list(moments)
