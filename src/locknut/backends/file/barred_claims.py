"""Claims that must not enter any more: the tombstones of the file engines, kept in the process.

No command is ever late here, because nothing travels. But if the core says that one may be, it is
believed (L3).
"""

from __future__ import annotations

from typing import Final

_MOST: Final = 1000
_FORGOTTEN: Final = 200
"""How many we remember, and how many of the oldest we forget at a time."""


class BarredClaims(dict[str, None]):
    """Their ids, oldest first. A dict, because every first attempt asks it, at the price of one."""

    __slots__ = ()

    def bar(self, claim_id: str) -> None:
        self[claim_id] = None
        if len(self) > _MOST:
            # We walk over a copy: the keeper's thread may bar a claim right now.
            for oldest in list(self)[:_FORGOTTEN]:
                self.pop(oldest, None)
