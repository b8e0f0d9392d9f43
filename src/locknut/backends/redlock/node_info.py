"""What an operator sees of one node."""

from __future__ import annotations

from typing import NamedTuple


class NodeInfo(NamedTuple):
    """One node of a Redlock, as an operator sees it."""

    place: str
    reached: bool = False
    votes_in: float | None = None
    """Seconds until it votes; 0 if it does, None if that is not known."""
    max_ttl: float | None = None
    """The longest ttl that its clients use."""
    clock_ahead: float | None = None
    """Seconds that its clock is ahead of ours."""
    problem: str = ""
    """What is wrong with it, in words; empty if nothing is."""
