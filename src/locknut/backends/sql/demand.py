"""What a client remembers of names, so that it takes each by the statement that fits at once."""

from __future__ import annotations

from typing import Final

from locknut.backends.sql.hold_records import number_of
from locknut.backends.sql.table_port import Seen, Take

REMEMBERED: Final = 1000
"""Names of either kind. One that was forgotten costs a longer statement, or one more."""


class Demand:
    """Of one client; for any thread. Nothing depends on it but the number of statements."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        """Names that were free when they were taken last. Their row is there, for a day."""
        self._wanted: dict[bytes, str] = {}
        """Names that others want too, with the claim that was refused last."""

    def is_known(self, key: bytes) -> bool:
        """Whether the name has a row, and nobody else is likely to want it."""
        return key in self._known

    def is_wanted(self, key: bytes) -> bool:
        """Whether others want the name."""
        return key in self._wanted

    def met(self, wanted: Take, seen: Seen) -> None:
        """By the row, it was granted or refused."""
        if number_of(seen, wanted.claim_id) is None:
            self.refused(wanted)
        else:
            self.taken(wanted)

    def taken(self, wanted: Take) -> None:
        """It was granted. If that was without a wait, nobody wants it any more."""
        if self._wanted.get(wanted.key) == wanted.claim_id:
            return
        self._wanted.pop(wanted.key, None)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known.add(wanted.key)

    def refused(self, wanted: Take) -> None:
        """Others hold it, or wait for it."""
        self._known.discard(wanted.key)
        if len(self._wanted) >= REMEMBERED:
            self._wanted.clear()
        self._wanted[wanted.key] = wanted.claim_id
