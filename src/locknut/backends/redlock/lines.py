"""One connection to a node, until it breaks: what goes by it arrives in order."""

from __future__ import annotations


class Line:
    """Another one is made each time, so `is` tells whether two things went the same way."""

    __slots__ = ("node", "run")

    def __init__(self, node: int, run: bytes):
        self.node = node
        self.run = run
        """Which run of the server is at its end."""
