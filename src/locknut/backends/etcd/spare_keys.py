"""Names of keys that are gone for sure: the next claim in the same line stands under one of them.

Until its history is compacted, and by itself it never is, etcd keeps the name of every key that was
ever there, and whoever asks for a line makes it go through all names under that prefix. With a new
name for each claim an acquire took the longer the more often the lock had been taken.

A late command must not meet the key of another claim (L16). So a name is passed on only if nothing
of the claim that had it can still be under way: whatever was sent for it was answered.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 4096
"""Lines whose names are remembered."""


class SpareKeys:
    """By line. All of them have the name of one lease in them, and are forgotten with it."""

    def __init__(self) -> None:
        self._names: dict[bytes, list[bytes]] = {}

    def take(self, prefix: bytes) -> bytes:
        """One that is nobody else's from now on; empty if there is none."""
        names = self._names.get(prefix)
        return names.pop() if names else b""

    def keep(self, prefix: bytes, key: bytes) -> None:
        if prefix not in self._names and len(self._names) >= MOST:
            self._names.clear()  # rarely, and it only costs a new name each
        self._names.setdefault(prefix, []).append(key)
