"""How an attempt can end other than with a grant: answers inside this engine, not errors."""

from __future__ import annotations


class Outcome(Exception):
    """Raised where the attempt has to be backed out of."""


class Refused(Outcome):
    """Somebody else is in, or was here before."""


class Reserved(Refused):
    """A parked hold is in: nobody to wait for, but a time."""

    def __init__(self, left: float) -> None:
        super().__init__()
        self.left = left


class Orphaned(Outcome):
    """The file was buried or unlinked: what is locked in it counts for nothing. Open again."""


class Crowded(Outcome):
    """Somebody was stopped in the middle of a few microseconds' work. Ask again soon."""
