"""How long the lines were at the last listings: what a small curve shows beside a hot lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from locknut import LockInfo

LISTINGS: Final = 60
MOST: Final = 500
"""Names: of more, those with the longest lines are kept."""


class LineLengths:
    """Of the names that somebody waited for lately."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lines: dict[str, deque[int]] = {}

    def take_in(self, locks: Iterable[LockInfo]) -> None:
        """What one listing showed."""
        now = {info.name: len(info.waiters) for info in locks if info.waiters}
        for name, line in self._lines.items():
            line.append(now.pop(name, 0))
        self._lines |= {name: deque([0, length], LISTINGS) for name, length in now.items()}
        over = [name for name, line in self._lines.items() if not any(line)]
        for name in over:
            del self._lines[name]
        if len(self._lines) > self._most:
            longest = sorted(self._lines, key=lambda name: -max(self._lines[name]))
            self._lines = {name: self._lines[name] for name in longest[: self._most]}

    def of(self, name: str) -> Sequence[int]:
        """Empty if nobody waited for it at the last listings."""
        return tuple(self._lines.get(name, ()))
